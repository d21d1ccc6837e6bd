//go:build !unix

package front

func limitFiles(uint64) error { return nil }
