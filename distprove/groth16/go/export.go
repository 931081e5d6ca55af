// Package export writes a circuit and a witness of gnark in the files that distprove reads beside gnark's keys: .r1cs
// and .wtns, as circom has them, with wires in gnark's order (the constant 1, public, secret, internal).
//
// A circuit with commitments (api.Commit, range checks) has one more section in its .r1cs file, which says which wires
// each commitment is of. The solver needs the proving key for its witness, because a commitment's hash is a wire.
//
// Copy it into your project: it needs nothing but gnark 0.14.
package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"math/big"
	"os"

	"github.com/consensys/gnark-crypto/ecc"
	fr_bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	hash_bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381/fr/hash_to_field"
	fr_bn254 "github.com/consensys/gnark-crypto/ecc/bn254/fr"
	hash_bn254 "github.com/consensys/gnark-crypto/ecc/bn254/fr/hash_to_field"
	"github.com/consensys/gnark/backend"
	"github.com/consensys/gnark/backend/groth16"
	groth16_bls12381 "github.com/consensys/gnark/backend/groth16/bls12-381"
	groth16_bn254 "github.com/consensys/gnark/backend/groth16/bn254"
	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/constraint"
	cs_bls12381 "github.com/consensys/gnark/constraint/bls12-381"
	cs_bn254 "github.com/consensys/gnark/constraint/bn254"
	"github.com/consensys/gnark/constraint/solver"
	"github.com/consensys/gnark/frontend/cs"
)

const elementBytes = 32

// commitmentsSection numbers the section of commitments in a .r1cs file; readers of circom's files pass over it.
const commitmentsSection = 22

// R1CS writes the constraints of a compiled circuit over BN254 or BLS12-381.
func R1CS(path string, ccs constraint.ConstraintSystem) error {
	var rows []constraint.R1C
	var coefficient func(uint32) *big.Int
	var curve ecc.ID
	switch system := ccs.(type) {
	case *cs_bn254.R1CS:
		rows, curve = system.GetR1Cs(), ecc.BN254
		coefficient = func(i uint32) *big.Int { return system.Coefficients[i].BigInt(new(big.Int)) }
	case *cs_bls12381.R1CS:
		rows, curve = system.GetR1Cs(), ecc.BLS12_381
		coefficient = func(i uint32) *big.Int { return system.Coefficients[i].BigInt(new(big.Int)) }
	default:
		return fmt.Errorf("not an R1CS over BN254 or BLS12-381: %T", ccs)
	}
	public, secret := ccs.GetNbPublicVariables(), ccs.GetNbSecretVariables() // the constant 1 is a public one
	wires := public + secret + ccs.GetNbInternalVariables()
	var header, constraints bytes.Buffer
	header.Write(element(curve.ScalarField(), elementBytes))
	for _, count := range []int{wires, 0, public - 1, secret} {
		writeNumber(&header, uint32(count))
	}
	writeNumber(&header, uint64(wires))
	writeNumber(&header, uint32(len(rows)))
	for _, row := range rows {
		for _, side := range []constraint.LinearExpression{row.L, row.R, row.O} {
			writeNumber(&constraints, uint32(len(side)))
			for _, term := range side {
				writeNumber(&constraints, uint32(term.VID))
				constraints.Write(element(coefficient(term.CID), 0))
			}
		}
	}
	sections := []section{{1, header.Bytes()}, {2, constraints.Bytes()}}
	if made := commitmentsOf(ccs); len(made) > 0 {
		var listed bytes.Buffer
		writeNumber(&listed, uint32(len(made)))
		for _, each := range made {
			writeNumber(&listed, uint32(each.CommitmentIndex))
			writeWires(&listed, each.PublicAndCommitmentCommitted)
			writeWires(&listed, each.PrivateCommitted)
		}
		sections = append(sections, section{commitmentsSection, listed.Bytes()})
	}
	return write(path, "r1cs", 1, 0o644, sections...)
}

// Witness solves a circuit without commitments for a full witness and writes the values of all wires. They are secret:
// only the owner may read the file.
func Witness(path string, ccs constraint.ConstraintSystem, full witness.Witness) error {
	if len(commitmentsOf(ccs)) > 0 {
		return fmt.Errorf("the circuit has commitments: CommittedWitness solves it, with the proving key")
	}
	return solve(path, ccs, full)
}

// CommittedWitness does what Witness does, for a circuit with commitments. It makes each commitment under the proving
// key, and gives its hash to the circuit, as groth16.Prove does with the same options.
func CommittedWitness(
	path string, ccs constraint.ConstraintSystem, pk groth16.ProvingKey, full witness.Witness,
	options ...backend.ProverOption,
) error {
	config, err := backend.NewProverConfig(options...)
	if err != nil {
		return err
	}
	commit, hashed, keys, err := committer(pk)
	if err != nil {
		return err
	}
	if config.HashToFieldFn != nil {
		hashed = config.HashToFieldFn
	}
	made := commitmentsOf(ccs)
	if len(made) != keys {
		return fmt.Errorf("the circuit has %d commitments, and the proving key %d", len(made), keys)
	}
	hint := func(modulus *big.Int, in []*big.Int, out []*big.Int) error {
		which := int(in[0].Int64())
		beside := 1 + len(made[which].PublicAndCommitmentCommitted)
		point, err := commit(which, in[beside:])
		if err != nil {
			return err
		}
		hashed.Reset()
		hashed.Write(constraint.SerializeCommitment(point, in[1:beside], elementBytes))
		sum := hashed.Sum(nil)
		hashed.Reset() // groth16.Prove with the same options takes it as it is
		out[0].SetBytes(sum[:min(len(sum), elementBytes)])
		out[0].Mod(out[0], modulus)
		return nil
	}
	placeholder := solver.GetHintID(cs.Bsb22CommitmentComputePlaceholder)
	return solve(path, ccs, full, append(config.SolverOpts, solver.OverrideHint(placeholder, hint))...)
}

// committer returns what makes a commitment under a key, as gnark encodes it, gnark's own hash, and how many
// commitments the key is for.
func committer(pk groth16.ProvingKey) (func(int, []*big.Int) ([]byte, error), hash.Hash, int, error) {
	domain := []byte(constraint.CommitmentDst)
	switch key := pk.(type) {
	case *groth16_bn254.ProvingKey:
		commit := func(which int, values []*big.Int) ([]byte, error) {
			elements := make([]fr_bn254.Element, len(values))
			for i := range values {
				elements[i].SetBigInt(values[i])
			}
			point, err := key.CommitmentKeys[which].Commit(elements)
			return point.Marshal(), err
		}
		return commit, hash_bn254.New(domain), len(key.CommitmentKeys), nil
	case *groth16_bls12381.ProvingKey:
		commit := func(which int, values []*big.Int) ([]byte, error) {
			elements := make([]fr_bls12381.Element, len(values))
			for i := range values {
				elements[i].SetBigInt(values[i])
			}
			point, err := key.CommitmentKeys[which].Commit(elements)
			return point.Marshal(), err
		}
		return commit, hash_bls12381.New(domain), len(key.CommitmentKeys), nil
	}
	return nil, nil, 0, fmt.Errorf("not a proving key over BN254 or BLS12-381: %T", pk)
}

func commitmentsOf(ccs constraint.ConstraintSystem) constraint.Groth16Commitments {
	made, _ := ccs.GetCommitments().(constraint.Groth16Commitments)
	return made
}

func solve(path string, ccs constraint.ConstraintSystem, full witness.Witness, options ...solver.Option) error {
	solution, err := ccs.Solve(full, options...)
	if err != nil {
		return err
	}
	var header, values bytes.Buffer
	switch solved := solution.(type) {
	case *cs_bn254.R1CSSolution:
		header.Write(element(ecc.BN254.ScalarField(), elementBytes))
		writeNumber(&header, uint32(len(solved.W)))
		for i := range solved.W {
			values.Write(element(solved.W[i].BigInt(new(big.Int)), 0))
		}
	case *cs_bls12381.R1CSSolution:
		header.Write(element(ecc.BLS12_381.ScalarField(), elementBytes))
		writeNumber(&header, uint32(len(solved.W)))
		for i := range solved.W {
			values.Write(element(solved.W[i].BigInt(new(big.Int)), 0))
		}
	default:
		return fmt.Errorf("not an R1CS over BN254 or BLS12-381: %T", ccs)
	}
	return write(path, "wtns", 2, 0o600, section{1, header.Bytes()}, section{2, values.Bytes()})
}

// element encodes a number in little-endian bytes, behind its size where that is not zero.
func element(value *big.Int, size uint32) []byte {
	var out bytes.Buffer
	if size != 0 {
		writeNumber(&out, size)
	}
	encoded := value.FillBytes(make([]byte, elementBytes))
	for i := range encoded {
		out.WriteByte(encoded[len(encoded)-1-i])
	}
	return out.Bytes()
}

func writeNumber(out *bytes.Buffer, number any) {
	_ = binary.Write(out, binary.LittleEndian, number) // a buffer takes every number of fixed size
}

func writeWires(out *bytes.Buffer, wires []int) {
	writeNumber(out, uint32(len(wires)))
	for _, wire := range wires {
		writeNumber(out, uint32(wire))
	}
}

type section struct {
	number  uint32
	content []byte
}

func write(path, magic string, version uint32, mode os.FileMode, sections ...section) error {
	var out bytes.Buffer
	out.WriteString(magic)
	writeNumber(&out, version)
	writeNumber(&out, uint32(len(sections)))
	for _, each := range sections {
		writeNumber(&out, each.number)
		writeNumber(&out, uint64(len(each.content)))
		out.Write(each.content)
	}
	return writeFile(path, out.Bytes(), mode)
}

// writeFile replaces the content of a file. A file that is there keeps no permission beyond `mode`.
func writeFile(path string, content []byte, mode os.FileMode) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	found, err := file.Stat()
	if err != nil {
		return err
	}
	if kept := found.Mode().Perm() & mode; found.Mode().IsRegular() && kept != found.Mode().Perm() {
		if err := file.Chmod(kept); err != nil {
			return err
		}
	}
	_, err = file.Write(content)
	return err
}
