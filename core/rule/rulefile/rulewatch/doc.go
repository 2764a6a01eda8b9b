// Package rulewatch follows a rule file while the program runs.
//
//	w := rulewatch.Start("locks.yaml", func(set *rule.Set) error { return g.Replace(set.Rules(), set.Unlocked()...) })
//	defer w.Close()
//
// A new version of the file counts once it hasn't changed for a moment. It is taken
// as a whole or not at all: when anything is wrong with it, the rules before it
// stay, and the log says what is wrong and in which line. Held locks aren't
// affected; see Replace of package guard.
//
// It is noticed when the file is written, replaced by another under its name, or
// when a symbolic link on the way to it changes, which is how Kubernetes updates a
// ConfigMap. Where the file system doesn't report changes, as over a network, the
// file is read every few seconds. What counts is its content: a new version may have
// the size and the date of the one before.
//
// Replace a file by renaming a complete one: a file that is being written for
// longer than that moment is read half-finished, and half a list of rules can be
// a valid one.
package rulewatch
