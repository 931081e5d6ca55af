// The judge over BLS12-381.
package main

import (
	"bytes"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc"
	curve "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

type bls12381Curve struct{}

func (bls12381Curve) judge(keyFile, proofFile []byte, public [][]byte) (bool, []byte, []byte, error) {
	var alpha1, beta1, delta1 curve.G1Affine
	var beta2, gamma2, delta2 curve.G2Affine
	var k []curve.G1Affine
	var committed [][]uint64
	var commitmentKeys uint32
	key := []any{&alpha1, &beta1, &beta2, &gamma2, &delta1, &delta2, &k, &committed, &commitmentKeys}
	var a, c, pok curve.G1Affine
	var b curve.G2Affine
	var commitments []curve.G1Affine
	proof := []any{&a, &b, &c, &commitments, &pok}
	for _, part := range []struct {
		file   []byte
		values []any
	}{{keyFile, key}, {proofFile, proof}} {
		reader := bytes.NewReader(part.file)
		decoder := curve.NewDecoder(reader)
		for _, value := range part.values {
			if err := decoder.Decode(value); err != nil {
				return false, nil, nil, err
			}
		}
		if reader.Len() != 0 {
			return false, nil, nil, fmt.Errorf("%d bytes follow", reader.Len())
		}
	}
	if len(k) != len(public)+1 || len(committed) != 0 || commitmentKeys != 0 || len(commitments) != 0 {
		return false, nil, nil, fmt.Errorf("%d points for %d public values, or commitments", len(k), len(public))
	}
	keyAgain, err := encoded(bls12381Encoder, alpha1, beta1, beta2, gamma2, delta1, delta2, k, committed, commitmentKeys)
	if err != nil {
		return false, nil, nil, err
	}
	proofAgain, err := encoded(bls12381Encoder, a, b, c, commitments, pok)
	if err != nil {
		return false, nil, nil, err
	}

	scalars := make([]fr.Element, len(k))
	scalars[0].SetOne()
	for i, value := range public {
		if err := scalars[i+1].SetBytesCanonical(value); err != nil {
			return false, nil, nil, err
		}
	}
	var l, minusA curve.G1Affine
	if _, err := l.MultiExp(k, scalars, ecc.MultiExpConfig{}); err != nil {
		return false, nil, nil, err
	}
	minusA.Neg(&a)
	holds, err := curve.PairingCheck(
		[]curve.G1Affine{minusA, alpha1, l, c}, []curve.G2Affine{b, beta2, gamma2, delta2})
	return holds, keyAgain, proofAgain, err
}

func bls12381Encoder(buffer *bytes.Buffer) func(any) error {
	encoder := curve.NewEncoder(buffer)
	return func(value any) error {
		switch point := value.(type) {
		case curve.G1Affine:
			return encoder.Encode(&point)
		case curve.G2Affine:
			return encoder.Encode(&point)
		}
		return encoder.Encode(value)
	}
}
