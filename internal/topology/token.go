package topology

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"math/big"
	"strings"
)

// A token is tly_, 43 base62 characters of 32 random bytes, and 6 of their
// CRC32: scanners recognise it, and a mistyped one costs no look-up.
const (
	tokenPrefix    = "tly_"
	tokenBytes     = 32
	tokenChars     = 43
	tokenSumChars  = 6
	tokenHintChars = 4
	base62         = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// NewToken makes a token.
func NewToken() string {
	var secret [tokenBytes]byte
	_, _ = rand.Read(secret[:]) // never fails; the program ends where it would
	body := inBase62(new(big.Int).SetBytes(secret[:]), tokenChars)
	return tokenPrefix + body + tokenSum(body)
}

// ValidToken reports whether v has a token's shape and checksum.
func ValidToken(v string) bool {
	body, ok := strings.CutPrefix(v, tokenPrefix)
	if !ok || len(body) != tokenChars+tokenSumChars {
		return false
	}
	return tokenSum(body[:tokenChars]) == body[tokenChars:]
}

// TokenHash is what is stored of a token: hex of its SHA-256.
func TokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// TokenHint is the part of a token that may be shown.
func TokenHint(token string) string { return token[max(0, len(token)-tokenHintChars):] }

func tokenSum(body string) string {
	return inBase62(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))), tokenSumChars)
}

func inBase62(n *big.Int, width int) string {
	out, base, rest := make([]byte, width), big.NewInt(int64(len(base62))), new(big.Int)
	for i := width - 1; i >= 0; i-- {
		n.DivMod(n, base, rest)
		out[i] = base62[rest.Int64()]
	}
	return string(out)
}
