package mesh

import "time"

// Storage returns the services of a small cloud store: ten front ends, five
// authenticators, ten partition servers picked by tenant, ten extent nodes (Wisp
// §6). psWorkers is the workers of a partition server; the others have one.
func Storage(psWorkers int) []Service {
	return []Service{
		{Name: "FE", Processes: 10},
		{Name: "AUTH", Processes: 5, Pick: AtRandom},
		{Name: "PS", Processes: 10, Pick: ByTenant, Resources: []Resource{{"workers", psWorkers}}},
		{Name: "EN", Processes: 10, Pick: AtRandom},
	}
}

// StorageMix returns a synthetic mix of workflows over Storage, and their shares:
// get, put, meta and scan. The original's trace is not public; this mix was
// calibrated to its table 3.
func StorageMix(d Deadline) ([]Workflow, []Part) {
	ms := func(n int) Step { return Work(Exp(time.Duration(n) * time.Millisecond)) }
	through := func(name string, ps ...Step) Workflow {
		return Workflow{Name: name, Deadline: d, Root: Stage{Service: "FE", Steps: []Step{
			Each(One("AUTH", ms(1))),
			Each(One("PS", ps...)),
		}}}
	}
	return []Workflow{
		through("get", ms(2), Each(One("EN", ms(5)))),
		through("put", ms(3), Each(One("EN", ms(8)).Times(2, 2))),
		through("meta", ms(4)),
		through("scan", ms(10), All(One("EN", ms(3)).Times(30, 90))),
	}, []Part{{"get", 0.63}, {"put", 0.25}, {"meta", 0.10}, {"scan", 0.02}}
}
