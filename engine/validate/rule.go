package validate

// Rule says which check refused. It is an error, so that errors.Is tells the
// rules of a refusal apart.
type Rule uint8

// The rules. Letters and numbers are those of the tables they are tested by:
// A descriptors, B intents, C sources, D hosts, E endpoints, H hints, M start-up
// metadata, J the JSON that brought it. Companions of a table's rows have a name in place of a number.
const (
	EmptyDescriptors   Rule = iota + 1 // A1
	DuplicateRank                      // A2
	DuplicateOwner                     // A3
	DescriptorSize                     // A4
	DescriptorDomain                   // A5
	DescriptorProtocol                 // A6
	DescriptorEndpoint                 // A7
	DescriptorWorker                   // A: not this process's worker id
	DescriptorTopic                    // A: engine-local without a topic of its own

	IntentHost        // B1
	IntentIncarnation // B2
	IntentSize        // B3
	IntentDomain      // B4
	IntentProtocol    // B5
	IntentEmpty       // B6
	IntentScheme      // B7
	IntentScope       // B: another control scope
	IntentTopic       // B: another discovery topic

	SourcePublisher // C1
	SourceVersion   // C2
	SourceTopic     // C3
	SourceEndpoint  // C4
	SourceSize      // C5
	SourceProtocol  // C6
	SourceDomain    // C7
	AttachmentID    // C: record id is not the derived one
	AttachmentField // C: a field differs from the source's

	HostLoopbackName    // D1
	HostScheme          // D2
	HostBracket         // D3
	HostBracketed       // D4
	HostBracketedIPv4   // D5
	HostExtra           // D6
	HostLoopbackAddress // D7
	HostRequired        // D: absent, empty, blank or no string
	HostLegacyAddress   // D: an address in a spelling that resolvers read differently
	HostName            // D: no name that DNS could hold
	EndpointScheme      // E: not tcp://
	EndpointPort        // E: no port, or none of 1 … 65535
	HintUnspecified     // H: a hint endpoint nobody can dial
	HintRankMissing     // H: a managed rank has no hint endpoint
	HintRankUnknown     // H: a rank that is not managed has one
	RankSpelling        // M: not a canonical decimal rank
	OwnerSpelling       // M: not an owner id
	OwnerRankMissing    // M: a managed rank has no owner
	OwnerRankUnknown    // M: a rank that is not managed has one
	OwnerShared         // M: two ranks share an owner
	MetadataShape       // M: not of the type it must have
	SettingMissing      // M: a setting is not stated
	SettingUnfit        // M: a setting that rules residency out

	JSONSyntax  // J: no JSON
	JSONType    // J: a value of another type
	JSONUnknown // J: no field
	JSONTwice   // J: a field that stands twice
	JSONMissing // J: a field that is required
	JSONNumber  // J: a number out of range or not in plain decimal
	numRules
)

var rules = [numRules]struct{ id, text string }{
	EmptyDescriptors:   {"A1", "empty list of descriptors"},
	DuplicateRank:      {"A2", "duplicate rank"},
	DuplicateOwner:     {"A3", "duplicate owner"},
	DescriptorSize:     {"A4", "block size 0"},
	DescriptorDomain:   {"A5", "owner of another domain"},
	DescriptorProtocol: {"A6", "protocol without owned residency"},
	DescriptorEndpoint: {"A7", "empty raw endpoint"},
	DescriptorWorker:   {"A-worker", "another process's worker id"},
	DescriptorTopic:    {"A-topic", "engine-local without a topic"},

	IntentHost:        {"B1", "another host incarnation"},
	IntentIncarnation: {"B2", "incarnation is not the discovery id"},
	IntentSize:        {"B3", "block size 0"},
	IntentDomain:      {"B4", "owner of another domain"},
	IntentProtocol:    {"B5", "protocol without owned residency"},
	IntentEmpty:       {"B6", "empty endpoint or topic"},
	IntentScheme:      {"B7", "endpoint is not tcp"},
	IntentScope:       {"B-scope", "another control scope"},
	IntentTopic:       {"B-topic", "another discovery topic"},

	SourcePublisher: {"C1", "publisher is not the discovery id"},
	SourceVersion:   {"C2", "another version"},
	SourceTopic:     {"C3", "another event topic"},
	SourceEndpoint:  {"C4", "another model's endpoint"},
	SourceSize:      {"C5", "another block size"},
	SourceProtocol:  {"C6", "protocol without owned residency"},
	SourceDomain:    {"C7", "another indexer domain"},
	AttachmentID:    {"C-record", "record id is not the derived one"},
	AttachmentField: {"C-attachment", "attachment differs from its source"},

	HostLoopbackName:    {"D1", "wildcard or loopback name"},
	HostScheme:          {"D2", "scheme or path in a host"},
	HostBracket:         {"D3", "bracket is not closed"},
	HostBracketed:       {"D4", "no address in brackets"},
	HostBracketedIPv4:   {"D5", "IPv4 address in brackets"},
	HostExtra:           {"D6", "more than a host"},
	HostLoopbackAddress: {"D7", "loopback or unspecified address"},
	HostRequired:        {"D-required", "no host"},
	HostLegacyAddress:   {"D-legacy", "address in a legacy spelling"},
	HostName:            {"D-name", "no name of a host"},
	EndpointScheme:      {"E-scheme", "endpoint is not tcp"},
	EndpointPort:        {"E-port", "no port to dial"},
	HintUnspecified:     {"H-unspecified", "bind-only hint endpoint"},
	HintRankMissing:     {"H-missing", "rank without hint endpoint"},
	HintRankUnknown:     {"H-unknown", "hint endpoint of no managed rank"},
	RankSpelling:        {"M-rank", "no canonical decimal rank"},
	OwnerSpelling:       {"M-owner", "no owner id"},
	OwnerRankMissing:    {"M-missing", "rank without owner"},
	OwnerRankUnknown:    {"M-unknown", "owner of no managed rank"},
	OwnerShared:         {"M-shared", "owner of two ranks"},
	MetadataShape:       {"M-shape", "wrong type"},
	SettingMissing:      {"M-stated", "setting not stated"},
	SettingUnfit:        {"M-setting", "setting that rules residency out"},

	JSONSyntax:  {"J-syntax", "no JSON"},
	JSONType:    {"J-type", "another type"},
	JSONUnknown: {"J-unknown", "unknown field"},
	JSONTwice:   {"J-twice", "repeated field"},
	JSONMissing: {"J-missing", "required field"},
	JSONNumber:  {"J-number", "number out of range"},
}

// ID is the row of the tables: A2, D-required.
func (r Rule) ID() string {
	if r == 0 || r >= numRules {
		return "unknown"
	}
	return rules[r].id
}

// Error names the rule: A2: duplicate rank.
func (r Rule) Error() string {
	if r == 0 || r >= numRules {
		return "unknown rule"
	}
	return rules[r].id + ": " + rules[r].text
}
