// Package export writes a circuit and a witness of gnark in the files that distprove reads beside gnark's keys: .r1cs
// and .wtns, as circom has them, with wires in gnark's order (the constant 1, public, secret, internal).
//
// Copy it into your project: it needs nothing but gnark.
package export

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/big"
	"os"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/constraint"
	cs_bls12381 "github.com/consensys/gnark/constraint/bls12-381"
	cs_bn254 "github.com/consensys/gnark/constraint/bn254"
)

const elementBytes = 32

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
	return write(path, "r1cs", 1, 0o644, header.Bytes(), constraints.Bytes())
}

// Witness solves a circuit for a full witness and writes the values of all wires. They are secret: only the owner may
// read the file.
func Witness(path string, ccs constraint.ConstraintSystem, full witness.Witness) error {
	solution, err := ccs.Solve(full)
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
	return write(path, "wtns", 2, 0o600, header.Bytes(), values.Bytes())
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

func write(path, magic string, version uint32, mode os.FileMode, sections ...[]byte) error {
	var out bytes.Buffer
	out.WriteString(magic)
	writeNumber(&out, version)
	writeNumber(&out, uint32(len(sections)))
	for i, section := range sections {
		writeNumber(&out, uint32(i+1))
		writeNumber(&out, uint64(len(section)))
		out.Write(section)
	}
	return os.WriteFile(path, out.Bytes(), mode)
}
