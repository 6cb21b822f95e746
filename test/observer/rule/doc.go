// Package rule states the rules of card quota for the observer, read from the
// documents: docs/scheduler.md, docs/api.md, docs/admission.md and docs/tide.md.
//
// It shares no code with the product and must not: a wrong rule there would be
// wrong here as well, and the observer could not see it. The linter forbids the
// import. Package test/observer/differential compares both on random objects,
// and `make mutants` measures what that comparison notices.
//
// The package favours the shortest statement of a rule over speed and messages.
package rule
