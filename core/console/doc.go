// Package console shows operators who holds which lock, in a browser.
//
//	recorder := console.NewRecorder()
//	locker := lock.New(store, lock.WithIdentity(lock.Identity{Service: "checkout"}), lock.WithHooks(recorder.Hooks()))
//	page := console.New(locker, console.WithRecorder(recorder), console.WithAuthorizer(operatorOf))
//	defer page.Close()
//	http.Handle("/locks/", http.StripPrefix("/locks", page))
//
// The page lists what is held in the store, by whom, since when and with which fence, and
// what is wrong: a lock without an end, in a foreign format, or of a process that has ended.
// Of this process it shows who waits, which keys are wanted most, what was lost, and the
// timeline of a key. It follows by server-sent events: one look at the store serves all
// viewers, and without viewers there is none.
//
// The console is closed unless [WithAuthorizer] opens it, and read-only unless
// [WithRelease] permits more. It needs no files, no build and no other host: a content
// security policy keeps everything else out. Put it on a private address all the same.
package console
