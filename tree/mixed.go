package tree

import "slices"

// mixed is a holder that has held everything so far in some view, but not all
// of it on the device.
type mixed struct {
	lane  uint32
	alive uint8 // views that held everything so far
	host  bool  // the extension has left the device
	units [NumViews]uint32
}

const allViews = 1<<NumViews - 1

// enterOther takes in a lane of the first run that is not whole.
func (r *reader) enterOther(l lane, m uint32) {
	if l.shape() == shapeDevice {
		r.give(l.id(), uint32(l.reach()))
		return
	}
	a := r.another(l.id(), allViews)
	r.apply(a, l, 0, m)
	r.dropStopped(a)
}

// another makes one more mixed holder, in place, as answer.another does.
func (r *reader) another(lane uint32, alive uint8) *mixed {
	n := len(r.mixed)
	if n == cap(r.mixed) {
		r.mixed = slices.Grow(r.mixed, 1)
	}
	r.mixed = r.mixed[:n+1]
	a := &r.mixed[n]
	a.lane, a.alive, a.host = lane, alive, false
	a.units = [NumViews]uint32{}
	return a
}

// dropStopped gives and forgets a, the last mixed holder, if no view of it
// goes on.
func (r *reader) dropStopped(a *mixed) {
	if a.alive == 0 {
		r.giveMixed(a)
		r.mixed = r.mixed[:len(r.mixed)-1]
	}
}

// goOnOther takes in a further lane, that is not whole, of a holder that has
// held everything so far on the device alone.
func (r *reader) goOnOther(l lane, p, m uint32) {
	if l.shape() == shapeDevice {
		r.give(l.id(), p+uint32(l.reach()))
		return
	}
	a := r.another(l.id(), allViews&^(1<<ViewHost))
	r.apply(a, l, p, m)
	r.dropStopped(a)
}

// apply takes in what a lane says of a mixed holder.
func (r *reader) apply(a *mixed, l lane, p, m uint32) {
	reach := uint32(l.reach())
	switch l.shape() {
	case shapeDevice:
		a.limit(ViewHost, 0, p, m)
		a.limit(ViewDevice, reach, p, m)
		a.limit(ViewAny, reach, p, m)
		a.limit(ViewDeviceHost, reach, p, m)
		a.extend(reach, 0, reach, p, m)
	case shapeHost:
		a.limit(ViewDevice, 0, p, m)
		a.limit(ViewHost, reach, p, m)
		a.limit(ViewAny, reach, p, m)
		a.limit(ViewDeviceHost, reach, p, m)
		a.extend(0, reach, reach, p, m)
	case shapeOther:
		a.limit(ViewDevice, 0, p, m)
		a.limit(ViewHost, 0, p, m)
		a.limit(ViewAny, reach, p, m)
		a.limit(ViewDeviceHost, 0, p, m)
		a.extend(0, 0, 0, p, m)
	default:
		s := r.x.side(l.ref())
		v := s[sView].Load()
		r.pause()
		e := s[sExt].Load()
		a.limit(ViewDevice, uint32(v&0xffff), p, m)
		a.limit(ViewAny, uint32(v>>16&0xffff), p, m)
		a.limit(ViewDeviceHost, uint32(v>>32&0xffff), p, m)
		a.limit(ViewHost, uint32(e>>16&0xffff), p, m)
		a.extend(uint32(e&0xffff), uint32(e>>16&0xffff), uint32(e>>32&0xffff), p, m)
	}
}

// limit ends a view that has only k of m units here.
func (a *mixed) limit(v View, k, p, m uint32) {
	if k < m && a.alive>>v&1 != 0 {
		a.alive &^= 1 << v
		a.units[v] = p + k
	}
}

// extend is limit for the extension: on the device while that is whole, then
// on the host.
func (a *mixed) extend(dev, host, end, p, m uint32) {
	switch {
	case a.host:
		a.limit(ViewExtension, host, p, m)
	case dev >= m:
	default:
		a.host = true
		a.limit(ViewExtension, end, p, m)
	}
}

// stop ends all views of a holder at p units.
func (a *mixed) stop(p uint32) {
	for v := range a.units {
		if a.alive>>v&1 != 0 {
			a.units[v] = p
		}
	}
	a.alive = 0
}
