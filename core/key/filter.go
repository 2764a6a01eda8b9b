package key

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// filter returns the form of a value that goes into the key; false refuses the value.
type filter func(value string) (string, bool)

const (
	filterInt    = "int"
	filterUUID   = "uuid"
	filterLower  = "lower"
	filterSHA256 = "sha256"
)

const knownFilters = "int, uuid, lower, sha256"

func filterNamed(name string) (filter, bool) {
	switch name {
	case filterInt:
		return canonicalInt, true
	case filterUUID:
		return canonicalUUID, true
	case filterLower:
		return lowerASCII, true
	case filterSHA256:
		return hashed, true
	}
	return nil, false
}

// canonicalInt accepts the one decimal spelling of an integer of any size. A
// handler's Atoi takes 7, 07 and +7 for the same number; the lock must not see
// three.
func canonicalInt(value string) (string, bool) {
	digits := strings.TrimPrefix(value, "-")
	if digits == "" {
		return "", false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return "", false
		}
	}
	if digits[0] == '0' && value != "0" {
		return "", false
	}
	return value, true
}

// canonicalUUID accepts the 36 byte form in either case and returns it in lower case.
func canonicalUUID(value string) (string, bool) {
	if len(value) != 36 {
		return "", false
	}
	for i := range len(value) {
		switch i {
		case 8, 13, 18, 23:
			if value[i] != '-' {
				return "", false
			}
		default:
			if !isHex(value[i]) {
				return "", false
			}
		}
	}
	return lowerASCII(value)
}

// lowerASCII folds A-Z only: what other letters fold to depends on the locale.
func lowerASCII(value string) (string, bool) {
	first := 0
	for first < len(value) && !isUpper(value[first]) {
		first++
	}
	if first == len(value) {
		return value, true
	}
	folded := []byte(value)
	for i := first; i < len(folded); i++ {
		if isUpper(folded[i]) {
			folded[i] += 'a' - 'A'
		}
	}
	return string(folded), true
}

// hashed keeps secrets and long values out of the key.
func hashed(value string) (string, bool) {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:]), true
}
