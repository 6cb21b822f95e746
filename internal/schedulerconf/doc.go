// Package schedulerconf judges, merges and stamps the text of volcano-scheduler.conf.
//
// Volcano reads that text without strictness: unknown keys are dropped, an unknown plugin is
// an error log in every session, and a text that its parser refuses ends the scheduler when
// its default configuration is switched off. Nothing of this reaches the author. Here a text
// is accepted only if every word in it has an effect and if card quotas stay enforced.
//
// The package is pure: text in, verdict or text out; no client, no clock, no logger.
package schedulerconf
