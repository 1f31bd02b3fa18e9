package server

import (
	"io"
	"maps"
	"slices"

	"github.com/cairn-kv/cairn/engine/registry"
	"github.com/cairn-kv/cairn/engine/residency"
)

// writeRegistryMetrics tells of slots by scope, and of registrations by how
// they ended. Owners stand in no label: their ids are long, and there is
// /v1/owners for each of them.
func (s *Server) writeRegistryMetrics(w io.Writer) {
	r := s.opt.Registry
	f := newFamily(w, "cairn_registrations_total", "counter")
	for _, o := range registry.Outcomes() {
		f.add(r.Count(o), "outcome", o.String())
	}
	regs := r.Registrations()
	newFamily(w, "cairn_registered_workers", "gauge").add(uint64(len(regs)))
	var oldest uint64
	for i := range regs {
		if regs[i].Left > 0 {
			oldest = max(oldest, uint64(regs[i].Idle.Seconds()))
		}
	}
	newFamily(w, "cairn_lease_idle_seconds_max", "gauge").add(oldest)
	if s.opt.WorkersFile != nil {
		st := s.opt.WorkersFile.Status()
		taken := uint64(0)
		if st.Problem == "" && !st.Loaded.IsZero() {
			taken = 1
		}
		newFamily(w, "cairn_workers_file_taken", "gauge").add(taken)
		newFamily(w, "cairn_workers_file_failed_workers", "gauge").add(uint64(len(st.Failed)))
	}
	if c := r.Control(); c != nil {
		writeSlotMetrics(w, c)
	}
}

func writeSlotMetrics(w io.Writer, c residency.Control) {
	hosts := c.Hosts()
	conditions := []struct {
		name string
		of   func(h *residency.HostStatus) int
	}{
		{"total", func(h *residency.HostStatus) int { return h.Total }},
		{"active", func(h *residency.HostStatus) int { return h.Active }},
		{"detached", func(h *residency.HostStatus) int { return h.Detached }},
		{"failed", func(h *residency.HostStatus) int { return h.Failed }},
	}
	f := newFamily(w, "cairn_scope_slots", "gauge")
	for i := range hosts {
		for _, cond := range conditions {
			f.add(uint64(cond.of(&hosts[i])), "scope", hosts[i].Scope, "condition", cond.name)
		}
	}
	f = newFamily(w, "cairn_scope_healthy", "gauge")
	for i := range hosts {
		healthy := uint64(0)
		if hosts[i].Healthy {
			healthy = 1
		}
		f.add(healthy, "scope", hosts[i].Scope)
	}
	f = newFamily(w, "cairn_scope_capacity_rejected_total", "counter")
	for i := range hosts {
		f.add(hosts[i].CapacityRejected, "scope", hosts[i].Scope)
	}
	for _, m := range []struct {
		name string
		of   func(h *residency.HostStatus) uint64
	}{
		{"cairn_scope_attaches_total", func(h *residency.HostStatus) uint64 { return h.Attaches }},
		{"cairn_scope_fences_total", func(h *residency.HostStatus) uint64 { return h.Fences }},
		{"cairn_scope_quarantines_total", func(h *residency.HostStatus) uint64 { return h.Quarantines }},
		{"cairn_scope_leases_expired_total", func(h *residency.HostStatus) uint64 { return h.Expired }},
	} {
		f = newFamily(w, m.name, "counter")
		for i := range hosts {
			f.add(m.of(&hosts[i]), "scope", hosts[i].Scope)
		}
	}
	// Under the names that dashboards of the state agent know, over all scopes.
	f = newFamily(w, "kv_state_agent_slots", "gauge")
	for _, cond := range conditions {
		n := 0
		for i := range hosts {
			n += cond.of(&hosts[i])
		}
		f.add(uint64(n), "state", cond.name)
	}
	var rejected uint64
	for i := range hosts {
		rejected += hosts[i].CapacityRejected
	}
	newFamily(w, "kv_state_agent_capacity_rejected_total", "counter").add(rejected)

	var states [residency.NumStates]uint64
	var outcomes [residency.NumOutcomes]uint64
	var schedulable, hints, attaches, stale uint64
	slots := c.Slots()
	for i := range slots {
		s := &slots[i]
		states[s.State]++
		outcomes[s.Outcome]++
		if s.Schedulable {
			schedulable++
		}
		if s.HintReady {
			hints++
		}
		attaches += s.Attaches
		stale += s.StaleReports
	}
	f = newFamily(w, "cairn_slots", "gauge")
	for i, n := range states {
		f.add(n, "state", residency.State(i).String())
	}
	f = newFamily(w, "cairn_slot_outcomes", "gauge")
	for i, n := range outcomes {
		f.add(n, "outcome", residency.Outcome(i).String())
	}
	newFamily(w, "cairn_slots_schedulable", "gauge").add(schedulable)
	newFamily(w, "cairn_slots_hint_ready", "gauge").add(hints)
	newFamily(w, "cairn_slot_attaches", "gauge").add(attaches)
	newFamily(w, "cairn_slot_stale_reports", "gauge").add(stale)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
