package key

const upperHex = "0123456789ABCDEF"

// escape appends value to key with every byte outside the unreserved set written as %XX.
func escape(key []byte, value string) []byte {
	for i := range len(value) {
		if c := value[i]; isUnreserved(c) {
			key = append(key, c)
		} else {
			key = append(key, '%', upperHex[c>>4], upperHex[c&0xF])
		}
	}
	return key
}

// isUnreserved reports whether an escaped value may contain c as itself.
func isUnreserved(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

// isSeparator reports whether c can never occur in an escaped value.
func isSeparator(c byte) bool { return !isUnreserved(c) && c != '%' }

func isUpper(c byte) bool  { return 'A' <= c && c <= 'Z' }
func isLetter(c byte) bool { return isUpper(c) || 'a' <= c && c <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isHex(c byte) bool    { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
