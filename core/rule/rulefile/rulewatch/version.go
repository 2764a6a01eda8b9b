package rulewatch

import "os"

// version identifies one state of a file; nil while there is no file.
type version struct{ info os.FileInfo }

// versionOf looks at the file that path leads to.
func versionOf(path string) version {
	info, err := os.Stat(path)
	if err != nil {
		return version{}
	}
	return version{info}
}

func (v version) same(other version) bool {
	if v.info == nil || other.info == nil {
		return v.info == other.info
	}
	return os.SameFile(v.info, other.info) && v.info.Size() == other.info.Size() && v.info.ModTime().Equal(other.info.ModTime())
}
