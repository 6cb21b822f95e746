// Package rule states the rules of card quota for the observer, from the documents:
// docs/scheduler.md, docs/api.md, docs/admission.md and docs/tide.md.
//
// It must not share code with the product: the observer could not see a rule that is wrong in
// both. The linter forbids the import. Package test/observer/differential compares both on
// random objects, and `make mutants` measures what that comparison notices.
//
// The package prefers the shortest form of a rule over speed and messages.
package rule
