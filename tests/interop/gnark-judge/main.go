// Judges files in gnark's formats with gnark-crypto, gnark's own library of curves, encodings and pairings:
//
//	gnark-judge bn254|bls12-381 VERIFYING_KEY PROOF PUBLIC
//
// It decodes every point with gnark-crypto's decoder, which checks curve and subgroup, in the order in which gnark's
// packages backend/groth16/bn254 and bls12-381 declare them. It encodes them again, compares the bytes, and checks
// e(A, B) = e(alpha, beta) e(L, gamma) e(C, delta). It prints true or false, or ends with an error.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

type judge interface {
	// judge returns whether the proof holds, and what the encoder makes of the key and the proof that it decoded.
	judge(key, proof []byte, public [][]byte) (bool, []byte, []byte, error)
}

var curves = map[string]judge{"bn254": bn254Curve{}, "bls12-381": bls12381Curve{}}

func main() {
	holds, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Println(holds)
}

func run(args []string) (bool, error) {
	if len(args) != 4 || curves[args[0]] == nil {
		return false, fmt.Errorf("usage: gnark-judge bn254|bls12-381 VERIFYING_KEY PROOF PUBLIC")
	}
	var files [3][]byte
	for i := range files {
		content, err := os.ReadFile(args[i+1])
		if err != nil {
			return false, err
		}
		files[i] = content
	}
	public, err := values(files[2])
	if err != nil {
		return false, err
	}
	holds, key, proof, err := curves[args[0]].judge(files[0], files[1], public)
	if err != nil {
		return false, err
	}
	if !bytes.Equal(key, files[0]) || !bytes.Equal(proof, files[1]) {
		return false, fmt.Errorf("the encoder writes other bytes than the decoder read")
	}
	return holds, nil
}

// values splits a public witness: counts of public, secret and all values, and the values.
func values(file []byte) ([][]byte, error) {
	if len(file) < 12 {
		return nil, fmt.Errorf("a public witness of %d bytes", len(file))
	}
	count := binary.BigEndian.Uint32(file)
	if binary.BigEndian.Uint32(file[4:]) != 0 || binary.BigEndian.Uint32(file[8:]) != count || len(file) != 12+32*int(count) {
		return nil, fmt.Errorf("the counts of a public witness do not fit")
	}
	split := make([][]byte, count)
	for i := range split {
		split[i] = file[12+32*i : 44+32*i]
	}
	return split, nil
}

// encoded returns what an encoder writes of some values.
func encoded(make func(*bytes.Buffer) func(any) error, values ...any) ([]byte, error) {
	var buffer bytes.Buffer
	encode := make(&buffer)
	for _, value := range values {
		if err := encode(value); err != nil {
			return nil, err
		}
	}
	return buffer.Bytes(), nil
}
