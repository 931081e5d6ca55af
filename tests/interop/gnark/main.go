// Makes keys, circuits and witnesses with gnark itself, and judges proofs with its own verifier:
//
//	gnark make bn254|bls12-381 DIR             a circuit's pk, vk (compressed and raw), c.r1cs, w.wtns, proof, public
//	gnark commit bn254|bls12-381 DIR           pk and vk of a circuit with a commitment (api.Commit)
//	gnark verify bn254|bls12-381 VK PROOF PUBLIC
//
// verify prints true or false, or ends with an error.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"distprove/gnark/export"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark/backend/groth16"
	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/constraint"
	"github.com/consensys/gnark/frontend"
	"github.com/consensys/gnark/frontend/cs/r1cs"
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

// committed commits to two of its secrets.
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
	case len(args) == 3 && args[0] == "make" && curves[args[1]] != 0:
		return makeFiles(curves[args[1]], &circuit{}, args[2], true)
	case len(args) == 3 && args[0] == "commit" && curves[args[1]] != 0:
		return makeFiles(curves[args[1]], &committed{}, args[2], false)
	}
	return fmt.Errorf("usage: gnark make|commit CURVE DIR, or gnark verify CURVE VK PROOF PUBLIC")
}

func makeFiles(id ecc.ID, of frontend.Circuit, dir string, prove bool) error {
	compiled, err := frontend.Compile(id.ScalarField(), r1cs.NewBuilder, of)
	if err != nil {
		return err
	}
	pk, vk, err := groth16.Setup(compiled)
	if err != nil {
		return err
	}
	files := map[string]func(io.Writer) (int64, error){
		"pk": pk.WriteTo, "pk.raw": pk.WriteRawTo, "vk": vk.WriteTo, "vk.raw": vk.WriteRawTo,
	}
	if prove {
		if err := proveInto(id, compiled, pk, dir, files); err != nil {
			return err
		}
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

func proveInto(
	id ecc.ID, compiled constraint.ConstraintSystem, pk groth16.ProvingKey, dir string,
	files map[string]func(io.Writer) (int64, error),
) error {
	if err := export.R1CS(filepath.Join(dir, "c.r1cs"), compiled); err != nil {
		return err
	}
	full, err := frontend.NewWitness(assignment(), id.ScalarField())
	if err != nil {
		return err
	}
	if err := export.Witness(filepath.Join(dir, "w.wtns"), compiled, full); err != nil {
		return err
	}
	proof, err := groth16.Prove(compiled, pk, full)
	if err != nil {
		return err
	}
	public, err := full.Public()
	if err != nil {
		return err
	}
	files["proof"], files["public"] = proof.WriteTo, public.WriteTo
	return nil
}

func verify(id ecc.ID, vkFile, proofFile, publicFile string) error {
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
	fmt.Println(groth16.Verify(proof, vk, public) == nil)
	return nil
}
