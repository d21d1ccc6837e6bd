package credit

import "math/bits"

// maxWorkflows is how many workflows a pool tells apart. A party that asks for further
// ones alone has as much of the pool as the others have on average.
const maxWorkflows = 64

// workflow is the parties that ask for a workflow, and what each of them has for it.
type workflow struct {
	census
	share float64 // its weight
	// each is the weight divided by the parties, left the weight divided by those that are
	// not modest, both in the unit in which parties have 1 on average.
	each, left float64
}

// SetShare sets the weight of a workflow, by the number that OnWorkflow has, 1 at first.
// The parties that ask for a workflow divide the credits of its weight in equal parts; one
// that asks for two has its part of both. Other numbers, and weights not above 0, change nothing.
func (p *Pool) SetShare(number int, share float64) {
	if number >= 0 && number < maxWorkflows && share > 0 {
		p.workflows[number].share = share
		p.divide()
	}
}

// OnWorkflow notes that c asks for a workflow, by its number. It comes before OnUse and
// OnRequest. Without it all are alike.
func (p *Pool) OnWorkflow(c *Client, number int) {
	if c.gone || number < 0 || number >= maxWorkflows {
		return
	}
	p.count(c)
	a := c.party
	bit := uint64(1) << number
	if a.carries&bit != 0 {
		return
	}
	if a.carries == 0 {
		p.known.join(a.as)
	}
	a.carries |= bit
	p.era++
	w := &p.workflows[number]
	w.join(a.as)
	if w.each == 0 {
		p.divide() // no party asked for it before
	}
}

// Part returns how much of the credits of each party that asks for a workflow is for that,
// beside other workflows: see wire.Grant.Part.
func (p *Pool) Part(number int) float64 {
	if number < 0 || number >= maxWorkflows || p.workflows[number].each == 0 {
		return 1
	}
	return p.workflows[number].each
}

// divide divides the weights of the workflows that are asked for.
func (p *Pool) divide() {
	p.era++
	known := p.known.all()
	if known == 0 {
		return
	}
	var all, left float64
	for i := range p.workflows {
		w := &p.workflows[i]
		n := w.all()
		if w.each, w.left = 0, 0; n == 0 {
			continue
		}
		w.each, w.left = w.share/float64(n), w.share
		all += w.share
		if rest := n - w.of(modest); rest > 0 {
			w.left /= float64(rest)
			left += w.share
		}
	}
	each := float64(known) / all
	rest := 1 / all // nobody is left
	if left > 0 {
		rest = float64(max(known-p.known.of(modest), 1)) / left
	}
	for i := range p.workflows {
		w := &p.workflows[i]
		w.each *= each
		w.left *= rest
	}
}

// worth is how much an equal share is for a party, 1 on average: of all that there is,
// and of what modest ones leave.
func (p *Pool) worth(a *party) (all, left float64) {
	for carries := a.carries | a.carried; carries != 0; carries &= carries - 1 {
		w := &p.workflows[bits.TrailingZeros64(carries)]
		all, left = all+w.each, left+w.left
	}
	if all == 0 {
		return 1, 1
	}
	return all, left
}
