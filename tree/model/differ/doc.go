// Package differ finds differences between an index and the reference model.
// It is test support: an index's own tests, and those of its users, import it.
//
//	Generate(profile, seed) ──► ops ──► Replay ──► model  ┐ compare after
//	                              ▲        └─────► index  ┘ every query
//	                              │          │ differs
//	                              └─ Shrink ◄┘ ──► Go text, JSON trace
//
// Ops name holders by labels, so a list can be cut anywhere and stays legal:
// an op whose holder was never added does nothing. Generators are seeded: a
// profile and a seed are enough to see a failure again.
//
// Race runs an index at full speed against readers. The truth of every query
// after every op is computed beforehand on the model, so each answer can be
// judged by the ops that overlapped its call.
//
// # How the index is proven
//
// What has to be shown of it, and where it is; tests without a package are in
// package tree.
//
//	cases         TestTraces, here and there
//	models        model.Model, TestRules, TestTraces; a second one of lists,
//	              TestBothModelsAgree (here)
//	differential  TestDifferential: 72 seeds of 2,000 ops over 12 profiles, all views
//	              of all holders, names, residencies, counters of events, invariants;
//	              TestThreeShards, TestDumpDifferential, TestRangesAreTheModels
//	shrinking     TestMutantsAreCaught, TestTextIsGo, TestHangIsReported (here)
//	concurrent    TestRace: every answer was true within its call; TestInterleavings:
//	              writer and reader stopped between any two steps, by a schedule
//	linearizable  TestLinearizable: one order of all calls about a holder and view;
//	              TestLinearizabilityCheckerCatches: the checker is one
//	soak          package perf/soak; TestSoak, make soak; TestSoakCatches there
//	leaks         drains of all of these: nothing is left in any arena or table
//	budget        TestBudget, TestBudgetIsFair, two profiles of the soak
//	memory        TestHeap, TestAllocations, TestRunsAreBoundedByLiveBlocks,
//	              TestManyHoldersOfOneBlock
//	mutants       make mutants: each fault in protocol or arithmetic has its test
//	pitfalls      TestPitfalls, which names those that need a race; TestPeersBugs;
//	              TestRegressions: what the differential test once found;
//	              TestShownUnderReader, TestRunGrowsUnderReader: what histories found
//
// # Concurrency
//
// Functions here may run in parallel tests: nothing is shared between calls.
package differ
