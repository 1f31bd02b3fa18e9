package config

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// maxSecret bounds a file with a secret, in bytes.
const maxSecret = 64 << 10

// FileSecret is the path of a file that holds a secret, such as a mounted
// Kubernetes secret. It is read whenever the secret is needed; line ends at its
// end are no part of it.
type FileSecret string

// Secret implements zmtp.Secret.
func (f FileSecret) Secret() (string, error) {
	file, err := os.Open(string(f))
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > maxSecret:
		return "", fmt.Errorf("%s has more than %d bytes", string(f), maxSecret)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// EnvSecret is the name of an environment variable that holds a secret.
type EnvSecret string

// Secret implements zmtp.Secret.
func (e EnvSecret) Secret() (string, error) {
	v, ok := os.LookupEnv(string(e))
	if !ok {
		return "", fmt.Errorf("environment variable %s is not set", string(e))
	}
	return v, nil
}

// secretKeys are the two keys that say where a secret is kept.
type secretKeys struct {
	file, env string
	at        [2]ast.Node // of file, of env; nil if it is not given
}

// secretKey reads NAME_file or NAME_env; false if the key is neither.
func (r *reader) secretKey(key, name string, v ast.Node, path string, k *secretKeys) bool {
	switch key {
	case name + "_file":
		k.at[0] = v
		r.text(v, join(path, key), &k.file)
	case name + "_env":
		k.at[1] = v
		r.text(v, join(path, key), &k.env)
	default:
		return false
	}
	return true
}

// secret returns where a secret is kept, nil if nothing says so.
func (r *reader) secret(n ast.Node, path, name string, k secretKeys) zmtp.Secret {
	switch {
	case k.at[0] != nil && k.at[1] != nil:
		r.add(n, join(path, name+"_env"), "", bad("stands beside "+name+"_file", "one of them"))
	case k.at[0] != nil && k.file == "":
		r.add(k.at[0], join(path, name+"_file"), `""`, bad("names no file", "a file with the "+name))
	case k.at[1] != nil && (k.env == "" || strings.ContainsAny(k.env, "=\x00")):
		r.add(k.at[1], join(path, name+"_env"), fmt.Sprintf("%q", k.env), bad("names no variable", "the name of an environment variable with the "+name))
	case k.at[0] != nil:
		return FileSecret(k.file)
	case k.at[1] != nil:
		return EnvSecret(k.env)
	}
	return nil
}

// checkSecret reads a secret to see whether it is there. What it is stays out of
// every message.
func checkSecret(key, name string, s zmtp.Secret) error {
	if s == nil {
		return nil
	}
	shown := ""
	switch s := s.(type) {
	case FileSecret:
		key, shown = join(key, name+"_file"), fmt.Sprintf("%q", string(s))
	case EnvSecret:
		key, shown = join(key, name+"_env"), fmt.Sprintf("%q", string(s))
	}
	v, err := s.Secret()
	switch {
	case err != nil:
		return &Problem{Key: key, Value: shown, What: "cannot be read: " + err.Error(), Want: "where the " + name + " is kept"}
	case v == "":
		return &Problem{Key: key, Value: shown, What: "is empty", Want: "the " + name}
	}
	return nil
}
