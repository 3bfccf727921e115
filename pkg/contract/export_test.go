package contract

import "time"

// HoldTurn has the turn while do runs.
func HoldTurn(d Dir, writer string, do func()) error {
	t, err := d.takeTurn(writer, time.Now().Add(turnWait))
	if err != nil {
		return err
	}
	do()
	return t.end()
}

// Check has a Keeper compare what is published with what is wanted.
func Check(k *Keeper) error { return k.put() }
