package front

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
)

// certificate writes that of package httptest, which nobody believes, and its key into dir.
func certificate(dir string) (cert, key string, err error) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	own := s.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}), 0o600); err != nil {
		return "", "", err
	}
	return cert, key, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
}
