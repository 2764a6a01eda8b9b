//go:build unix && !linux

package process

import "syscall"

// Only Linux can bind the life of a child to its parent's. Elsewhere a server
// survives a test binary that was killed before its cleanups ran.
func attributes(credential *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: credential}
}
