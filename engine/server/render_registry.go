package server

import (
	"strconv"
	"strings"
	"time"

	"github.com/cairn-kv/cairn/engine/registry"
	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/engine/validate"
	"github.com/cairn-kv/cairn/internal/jsontext"
)

// appendLease answers a registration or a renewal, and leaves the object open.
// Renew three times in the lease's time, so
// that one lost renewal ends nothing.
func appendLease(b []byte, l *registry.Lease) []byte {
	b = appendText(b, `{"id":`, l.ID)
	if l.Scope != "" {
		b = appendText(b, `,"scope":`, l.Scope)
		b = appendUint(b, `,"host":`, l.Host)
		b = appendOwnerIDs(append(b, `,"owners":`...), l.Owners)
	}
	b = appendInt(b, `,"lease_ms":`, millis(l.TTL))
	b = appendInt(b, `,"renew_ms":`, millis(l.TTL/3))
	if len(l.Out) > 0 {
		b = appendOwnerIDs(append(b, `,"out":`...), l.Out)
	}
	return b
}

func appendOwnerIDs(b []byte, all []residency.OwnerID) []byte {
	b = append(b, '[')
	for i, o := range all {
		b = jsontext.AppendString(comma(b, i), string(o))
	}
	return append(b, ']')
}

func appendRegistrations(b []byte, all []registry.Registration) []byte {
	b = append(b, '[')
	for i := range all {
		r := &all[i]
		b = appendText(comma(b, i), `{"id":`, r.ID)
		if r.Protocol != "" {
			b = appendText(b, `,"protocol":`, r.Protocol)
		}
		if r.Scope != "" {
			b = appendText(b, `,"scope":`, r.Scope)
			b = appendOwnerIDs(append(b, `,"owners":`...), r.Owners)
			b = appendOwnerIDs(append(b, `,"out":`...), r.Out)
		}
		b = appendFlag(b, `,"complete":`, r.Complete)
		b = appendInt(b, `,"age_ms":`, millis(r.Age))
		b = appendInt(b, `,"idle_ms":`, millis(r.Idle))
		if r.Left > 0 {
			b = appendInt(b, `,"left_ms":`, millis(r.Left))
		}
		b = append(appendUint(b, `,"renewals":`, r.Renewals), '}')
	}
	return append(b, ']')
}

// appendRegistry writes what /v1/owners says beside what answers can name: the
// slots, their hosts and leases, and the watched file.
func (s *Server) appendRegistry(b []byte) []byte {
	if s.opt.Registry == nil {
		return b
	}
	b = append(b, `,"slots":[`...)
	c := s.opt.Registry.Control()
	if c != nil {
		slots := c.Slots()
		now := time.Now()
		for i := range slots {
			b = appendSlot(comma(b, i), &slots[i], now)
		}
	}
	b = append(b, `],"hosts":[`...)
	if c != nil {
		hosts := c.Hosts()
		for i := range hosts {
			b = appendHost(comma(b, i), &hosts[i])
		}
	}
	b = appendRegistrations(append(b, `],"workers":`...), s.opt.Registry.Registrations())
	if s.opt.WorkersFile != nil {
		f := s.opt.WorkersFile.Status()
		b = append(appendFile(append(b, `,"file":`...), &f), '}')
	}
	return b
}

func appendSlot(b []byte, s *residency.SlotStatus, now time.Time) []byte {
	b = appendText(b, `{"owner":`, string(s.Source.Owner))
	b = appendUint(b, `,"slot":`, uint64(s.Source.Slot))
	b = appendText(b, `,"scope":`, s.Scope)
	b = appendUint(b, `,"rank":`, uint64(s.Source.Rank))
	b = appendText(b, `,"model":`, s.Source.Model)
	b = appendText(b, `,"protocol":`, s.Protocol.String())
	b = appendInt(b, `,"block_size":`, s.BlockSize)
	b = appendUint(b, `,"publisher":`, s.Publisher)
	b = appendText(b, `,"state":`, s.State.String())
	if s.Flags != 0 {
		b = appendStrings(append(b, `,"flags":`...), strings.Split(s.Flags.String(), ","))
	}
	b = appendText(b, `,"outcome":`, s.Outcome.String())
	b = appendFlag(b, `,"schedulable":`, s.Schedulable)
	b = appendFlag(b, `,"hint_ready":`, s.HintReady)
	b = appendFlag(b, `,"cache_owner_ready":`, s.CacheOwnerReady)
	b = appendFlag(b, `,"failed":`, s.Failed)
	b = appendUint(b, `,"generation":`, s.Route.Generation)
	b = appendUint(b, `,"attaches":`, s.Attaches)
	b = appendUint(b, `,"stale_reports":`, s.StaleReports)
	b = append(b, `,"intents":[`...)
	for i, n := range s.Intents {
		b = strconv.AppendUint(comma(b, i), n, 10)
	}
	b = append(b, ']')
	if a := s.Attachment; a != nil {
		b = appendUint(b, `,"attachment":{"record":`, a.Record)
		b = appendUint(b, `,"generation":`, a.Generation)
		b = appendUint(b, `,"incarnation":`, a.Incarnation)
		b = appendUint(b, `,"producer":`, a.Producer)
		b = appendUint(b, `,"worker":{"id":`, a.Worker.ID)
		b = appendUint(b, `,"rank":`, uint64(a.Worker.Rank))
		b = appendStrings(append(b, `},"endpoints":`...), a.Endpoints)
		if len(a.Replays) > 0 {
			b = appendStrings(append(b, `,"replay_endpoints":`...), a.Replays)
		}
		b = appendText(b, `,"topic":`, a.Topic)
		b = append(appendUint(b, `,"ready_at":`, uint64(a.ReadyAt)), '}')
	}
	if h := s.Hint; h != nil {
		b = appendText(b, `,"hint":{"worker_type":`, h.WorkerType)
		b = appendText(b, `,"endpoint":`, h.ControlEndpoint)
		if h.Carrier != "" {
			b = appendText(b, `,"carrier":`, h.Carrier)
		}
		if h.Link != "" {
			b = appendText(b, `,"link":`, h.Link)
		}
		if h.TP != 0 {
			b = appendInt(b, `,"tp":`, h.TP)
		}
		b = append(b, '}')
	}
	if s.Lease != "" {
		b = appendText(b, `,"lease":`, s.Lease)
		b = appendInt(b, `,"lease_age_ms":`, millis(s.LeaseAge))
	}
	if s.Reason != "" {
		b = appendText(b, `,"reason":`, s.Reason)
		b = appendInt(b, `,"since_ms":`, millis(max(now.Sub(s.Since), 0)))
	}
	return append(b, '}')
}

func appendStrings(b []byte, all []string) []byte {
	b = append(b, '[')
	for i, s := range all {
		b = jsontext.AppendString(comma(b, i), s)
	}
	return append(b, ']')
}

func appendHost(b []byte, h *residency.HostStatus) []byte {
	b = appendText(b, `{"scope":`, h.Scope)
	b = appendUint(b, `,"instance":`, h.Instance)
	b = appendInt(b, `,"max_slots":`, h.MaxSlots)
	b = appendFlag(b, `,"healthy":`, h.Healthy)
	if h.Error != "" {
		b = appendText(b, `,"error":`, h.Error)
	}
	b = appendInt(b, `,"total_slots":`, h.Total)
	b = appendInt(b, `,"active_slots":`, h.Active)
	b = appendInt(b, `,"detached_slots":`, h.Detached)
	b = appendInt(b, `,"failed_slots":`, h.Failed)
	b = appendInt(b, `,"publishers":`, h.Publishers)
	b = appendUint(b, `,"capacity_rejected_total":`, h.CapacityRejected)
	b = appendUint(b, `,"attaches_total":`, h.Attaches)
	b = appendUint(b, `,"fences_total":`, h.Fences)
	b = appendUint(b, `,"quarantines_total":`, h.Quarantines)
	return append(appendUint(b, `,"leases_expired_total":`, h.Expired), '}')
}

// appendFile leaves the object open.
func appendFile(b []byte, f *registry.FileStatus) []byte {
	b = appendText(b, `{"path":`, f.Path)
	b = appendFlag(b, `,"loaded":`, !f.Loaded.IsZero())
	b = appendInt(b, `,"workers":`, f.Workers)
	if f.Problem != "" {
		b = appendText(b, `,"problem":`, f.Problem)
	}
	n := 0
	b = append(b, `,"failed":{`...)
	for _, id := range sortedKeys(f.Failed) {
		b = appendText(append(jsontext.AppendString(comma(b, n), id), ':'), "", f.Failed[id])
		n++
	}
	return append(b, '}')
}

// appendProblems writes everything that was wrong with a registration, if it
// was that.
func appendProblems(b []byte, all validate.Errors) []byte {
	if len(all) == 0 {
		return b
	}
	b = append(b, `,"problems":[`...)
	for i, e := range all {
		b = appendText(comma(b, i), `{"rule":`, e.Rule.ID())
		b = appendText(b, `,"field":`, e.Field)
		b = appendText(b, `,"value":`, e.Value)
		b = appendText(b, `,"why":`, e.Why)
		b = append(appendText(b, `,"want":`, e.Want), '}')
	}
	return append(b, ']')
}
