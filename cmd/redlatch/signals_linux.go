package main

import "syscall"

// dieWithParent has the kernel kill the command if this process is killed: the lock ends
// then, and nobody would end the command.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
