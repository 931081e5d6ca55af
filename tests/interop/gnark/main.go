// Makes keys, circuits and witnesses with gnark itself, and judges proofs with its own verifier:
//
//	gnark make bn254|bls12-381 DIR             a circuit's pk, vk (compressed and raw), c.r1cs, w.wtns, proof, public
//	gnark commit bn254|bls12-381 DIR [HASH]    the same of a circuit with commitments (api.Commit), hashed as gnark does
//	                                           by default, or by keccak256 or sha256
//	gnark range bn254|bls12-381 DIR            the same of a circuit with range checks and a commitment
//	gnark verify bn254|bls12-381 VK PROOF PUBLIC [HASH]
//
// verify prints true or false, or ends with an error.
package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"distprove/export"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark/backend"
	"github.com/consensys/gnark/backend/groth16"
	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/frontend"
	"github.com/consensys/gnark/frontend/cs/r1cs"
	"github.com/consensys/gnark/std/rangecheck"
	"golang.org/x/crypto/sha3"
)

// circuit has two public values, the root of a cubic, and bits of secrets that decide a sum.
type circuit struct {
	Y frontend.Variable `gnark:",public"`
	Z frontend.Variable `gnark:",public"`
	X frontend.Variable
	W [4]frontend.Variable
}

func (c *circuit) Define(api frontend.API) error {
	api.AssertIsEqual(c.Y, api.Add(api.Mul(c.X, c.X, c.X), c.X, 5))
	sum := frontend.Variable(0)
	for i := range c.W {
		bits := api.ToBinary(c.W[i], 8)
		sum = api.Add(sum, api.Mul(bits[0], c.W[i]), api.Mul(bits[7], 3))
	}
	api.AssertIsEqual(c.Z, sum)
	return nil
}

// committed commits to two of its secrets, and then to a public value, a secret and the first commitment.
type committed struct{ circuit }

func (c *committed) Define(api frontend.API) error {
	if err := c.circuit.Define(api); err != nil {
		return err
	}
	commitment, err := api.(frontend.Committer).Commit(c.X, c.W[0])
	if err != nil {
		return err
	}
	api.AssertIsDifferent(commitment, c.X)
	second, err := api.(frontend.Committer).Commit(c.Z, c.W[1], commitment)
	if err != nil {
		return err
	}
	api.AssertIsDifferent(second, commitment)
	return nil
}

// ranged checks by lookups that its secrets are small, for which gnark commits to many wires, and commits to a public
// value alone.
type ranged struct{ circuit }

func (c *ranged) Define(api frontend.API) error {
	if err := c.circuit.Define(api); err != nil {
		return err
	}
	checker := rangecheck.New(api)
	for i := range c.W {
		checker.Check(c.W[i], 8)
		checker.Check(api.Mul(c.W[i], c.W[i]), 17)
	}
	commitment, err := api.(frontend.Committer).Commit(c.Y)
	if err != nil {
		return err
	}
	api.AssertIsDifferent(commitment, c.X)
	return nil
}

func assignment() *circuit {
	made := circuit{X: 3, Y: 35}
	sum := 0
	for i, value := range []int{129, 77, 200, 255} {
		made.W[i] = value
		sum += (value&1)*value + (value>>7)*3
	}
	made.Z = sum
	return &made
}

var hashes = map[string]func() hash.Hash{"keccak256": sha3.NewLegacyKeccak256, "sha256": sha256.New}
var curves = map[string]ecc.ID{"bn254": ecc.BN254, "bls12-381": ecc.BLS12_381}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 5 && args[0] == "verify" && curves[args[1]] != 0:
		return verify(curves[args[1]], args[2], args[3], args[4])
	case len(args) == 6 && args[0] == "verify" && curves[args[1]] != 0 && hashes[args[5]] != nil:
		hashed := backend.WithVerifierHashToFieldFunction(hashes[args[5]]())
		return verify(curves[args[1]], args[2], args[3], args[4], hashed)
	case len(args) == 3 && args[0] == "make" && curves[args[1]] != 0:
		return makeFiles(curves[args[1]], &circuit{}, args[2])
	case len(args) == 3 && args[0] == "range" && curves[args[1]] != 0:
		return makeFiles(curves[args[1]], &ranged{}, args[2])
	case len(args) == 3 && args[0] == "commit" && curves[args[1]] != 0:
		return makeFiles(curves[args[1]], &committed{}, args[2])
	case len(args) == 4 && args[0] == "commit" && curves[args[1]] != 0 && hashes[args[3]] != nil:
		return makeFiles(curves[args[1]], &committed{}, args[2], backend.WithProverHashToFieldFunction(hashes[args[3]]()))
	}
	return fmt.Errorf("usage: gnark make|commit|range CURVE DIR, or gnark verify CURVE VK PROOF PUBLIC [HASH]")
}

// makeFiles writes keys and a proof of a circuit, the circuit and its witness.
func makeFiles(id ecc.ID, of frontend.Circuit, dir string, options ...backend.ProverOption) error {
	compiled, err := frontend.Compile(id.ScalarField(), r1cs.NewBuilder, of)
	if err != nil {
		return err
	}
	pk, vk, err := groth16.Setup(compiled)
	if err != nil {
		return err
	}
	full, err := frontend.NewWitness(assignment(), id.ScalarField())
	if err != nil {
		return err
	}
	if err := export.R1CS(filepath.Join(dir, "c.r1cs"), compiled); err != nil {
		return err
	}
	solved := filepath.Join(dir, "w.wtns")
	if _, plain := of.(*circuit); plain {
		err = export.Witness(solved, compiled, full)
	} else {
		err = export.CommittedWitness(solved, compiled, pk, full, options...)
	}
	if err != nil {
		return err
	}
	proof, err := groth16.Prove(compiled, pk, full, options...)
	if err != nil {
		return err
	}
	public, err := full.Public()
	if err != nil {
		return err
	}
	files := map[string]func(io.Writer) (int64, error){
		"pk": pk.WriteTo, "pk.raw": pk.WriteRawTo, "vk": vk.WriteTo, "vk.raw": vk.WriteRawTo,
		"proof": proof.WriteTo, "proof.raw": proof.WriteRawTo, "public": public.WriteTo,
	}
	for name, writeTo := range files {
		var content bytes.Buffer
		if _, err := writeTo(&content); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), content.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func verify(id ecc.ID, vkFile, proofFile, publicFile string, options ...backend.VerifierOption) error {
	vk, proof := groth16.NewVerifyingKey(id), groth16.NewProof(id)
	public, err := witness.New(id.ScalarField())
	if err != nil {
		return err
	}
	for path, reader := range map[string]io.ReaderFrom{vkFile: vk, proofFile: proof, publicFile: public} {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, err := reader.ReadFrom(bytes.NewReader(content)); err != nil {
			return err
		}
	}
	fmt.Println(groth16.Verify(proof, vk, public, options...) == nil)
	return nil
}
