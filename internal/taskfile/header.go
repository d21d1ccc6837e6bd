package taskfile

import (
	"bytes"
	"encoding/binary"
	"unsafe"
)

// bigEndian is true on machines that cannot map a task file.
var bigEndian = func() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 0
}()

const (
	fixedBytes  = 128 // of the header, which never change
	checkOffset = 120
)

// encodeHeader returns bytes 0 to 127 of a file.
func encodeHeader(g Geometry, place Place) []byte {
	b := make([]byte, 0, fixedBytes)
	b = append(b, magic...)
	for _, v := range []int{version, headerBytes, g.Slots, g.Resources, g.Kinds, g.slotBytes()} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(g.slotsOffset()))
	b = binary.LittleEndian.AppendUint64(b, uint64(g.fileBytes()))
	b = append(b, place.Boot[:]...)
	b = binary.LittleEndian.AppendUint64(b, place.PIDNamespace)
	b = b[:checkOffset]
	return binary.LittleEndian.AppendUint64(b, Fingerprint(string(b)))
}

// parseHeader validates the first bytes of a file of the given size for a
// process in place. It never panics; what it refuses is a *Refusal.
func parseHeader(b []byte, size int64, place Place) (Geometry, error) {
	if len(b) < headerBytes || size < headerBytes {
		return Geometry{}, refuse("short", "%d bytes; a header has %d", min(int64(len(b)), size), headerBytes)
	}
	if got := string(b[:8]); got != magic {
		return Geometry{}, refuse("magic", "it begins with %q, a task file with %q", got, magic)
	}
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	if got := u32(8); got != version {
		return Geometry{}, refuse("version", "version %d; this program reads version %d; use tracer and engine of one release", got, version)
	}
	if got, want := u64(checkOffset), Fingerprint(string(b[:checkOffset])); got != want {
		return Geometry{}, refuse("check", "check %#x, the header's bytes give %#x; the file is damaged, remove it", got, want)
	}
	if g := max(u32(16), u32(20), u32(24)); g > maxSlots {
		return Geometry{}, refuse("geometry", "a count of %d; none is above %d", g, maxSlots)
	}
	g := Geometry{Slots: int(u32(16)), Resources: int(u32(20)), Kinds: int(u32(24))}
	if !g.valid() {
		return Geometry{}, refuse("geometry", "%d slots (1 to %d), %d resources (1 to %d), %d kinds (0 to %d)",
			g.Slots, maxSlots, g.Resources, maxResources, g.Kinds, maxKinds)
	}
	if u32(12) != headerBytes || u32(28) != uint32(g.slotBytes()) || u64(32) != uint64(g.slotsOffset()) || u64(40) != uint64(g.fileBytes()) {
		return Geometry{}, refuse("geometry", "header %d, slot %d, slots at %d, file %d bytes; expected %d, %d, %d, %d",
			u32(12), u32(28), u64(32), u64(40), headerBytes, g.slotBytes(), g.slotsOffset(), g.fileBytes())
	}
	if size != int64(g.fileBytes()) {
		return Geometry{}, refuse("size", "%d bytes; its header says %d", size, g.fileBytes())
	}
	if !bytes.Equal(b[48:64], place.Boot[:]) {
		return Geometry{}, refuse("boot", "written before the last boot; remove it, and keep task files where a boot empties the directory")
	}
	if got := u64(64); got != place.PIDNamespace {
		return Geometry{}, refuse("namespace", "made in pid namespace %d, this process is in %d; run tracer and engine in one", got, place.PIDNamespace)
	}
	return g, nil
}
