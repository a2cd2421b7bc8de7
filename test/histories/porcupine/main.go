// Checks histories for linearizability with Porcupine.
//
// Each line of the input is a history as JSON; each line of the output is its verdict, in the same order:
// {"name": .., "verdict": "ok" | "illegal" | "unknown"}. Unknown is what took longer than a minute. A line that is
// no history ends the program with a sentence.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const patience = time.Minute

// Operation is what a client did. It was between the times Call and Return; one without Return may have happened at
// any time after its call, or not at all.
type Operation struct {
	Client int    `json:"client"`
	Call   int64  `json:"call"`
	Return *int64 `json:"return"`
	Input  Input  `json:"input"`
	Output Output `json:"output"`
}

// Input is a function of the model and what it was given. Key is what it was done to: keys do not affect each other.
type Input struct {
	Function string `json:"f"`
	Key      string `json:"key"`
	Value    int    `json:"value"`
	Values   []int  `json:"values"`
	Expected int    `json:"expected"`
}

// Output is what a client was told. Known is false when it was told nothing.
type Output struct {
	Known  bool  `json:"known"`
	Value  int   `json:"value"`
	Values []int `json:"values"`
	Done   bool  `json:"done"`
}

// History is what all clients did to a model.
type History struct {
	Name       string      `json:"name"`
	Model      string      `json:"model"`
	Operations []Operation `json:"operations"`
}

// A step is one function of a model: could it have returned this, and what is the state then?
type step func(state interface{}, in Input, out Output) (bool, interface{})

// register is a value that is read, written, and exchanged if it is the expected one.
var register = map[string]step{
	"read": func(value interface{}, in Input, out Output) (bool, interface{}) {
		return !out.Known || out.Value == value, value
	},
	"write": func(value interface{}, in Input, out Output) (bool, interface{}) {
		return true, in.Value
	},
	"cas": func(value interface{}, in Input, out Output) (bool, interface{}) {
		if value == in.Expected {
			return !out.Known || out.Done, in.Value
		}
		return !out.Known || !out.Done, value
	},
}

// counter is a number that is read and added to. The client of an addition is told the sum.
var counter = map[string]step{
	"read": func(sum interface{}, in Input, out Output) (bool, interface{}) {
		return !out.Known || out.Value == sum, sum
	},
	"add": func(sum interface{}, in Input, out Output) (bool, interface{}) {
		next := sum.(int) + in.Value
		return !out.Known || out.Value == next, next
	},
}

func has(set string, x int) bool {
	return strings.Contains(set, fmt.Sprintf(",%d,", x))
}

func with(set string, x int) string {
	if has(set, x) {
		return set
	}
	return set + fmt.Sprintf(",%d,", x)
}

func without(set string, x int) string {
	return strings.Replace(set, fmt.Sprintf(",%d,", x), "", 1)
}

func isSet(set string, xs []int) bool {
	for _, x := range xs {
		if !has(set, x) {
			return false
		}
	}
	return strings.Count(set, ",") == 2*len(xs)
}

// set has numbers that are added, removed, and read. Its state is a text, so that states can be compared.
var set = map[string]step{
	"read": func(members interface{}, in Input, out Output) (bool, interface{}) {
		return !out.Known || isSet(members.(string), out.Values), members
	},
	"add": func(members interface{}, in Input, out Output) (bool, interface{}) {
		return true, with(members.(string), in.Value)
	},
	"remove": func(members interface{}, in Input, out Output) (bool, interface{}) {
		return true, without(members.(string), in.Value)
	},
}

// name belongs to one process, or to none, which is 0. It is free when that has died.
var name = map[string]step{
	"register": func(holder interface{}, in Input, out Output) (bool, interface{}) {
		if holder == 0 {
			return !out.Known || out.Done, in.Value
		}
		return !out.Known || !out.Done, holder
	},
	"whereis": func(holder interface{}, in Input, out Output) (bool, interface{}) {
		return !out.Known || out.Value == holder, holder
	},
	"unregister": func(holder interface{}, in Input, out Output) (bool, interface{}) {
		return true, 0
	},
	"die": func(holder interface{}, in Input, out Output) (bool, interface{}) {
		if holder == in.Value {
			return true, 0
		}
		return true, holder
	},
}

// group has as its state the lists of members that their node has had, from the one that an observer has seen last. The
// state is a text, with a line for each list.
//
// The node itself sees its last list. Another node sees any of the lists, or nothing, and from then on none that is older.
var group = map[string]step{
	"change": func(lists interface{}, in Input, out Output) (bool, interface{}) {
		return true, lists.(string) + line(in.Values)
	},
	"look": func(lists interface{}, in Input, out Output) (bool, interface{}) {
		place := strings.Index("\n"+lists.(string), "\n"+line(out.Values))
		if len(out.Values) == 0 {
			return true, lists
		}
		if place < 0 {
			return false, lists
		}
		return true, lists.(string)[place:]
	},
	"look-at-own": func(lists interface{}, in Input, out Output) (bool, interface{}) {
		last := line(out.Values)
		return strings.HasSuffix("\n"+lists.(string), "\n"+last), last
	},
}

func line(members []int) string {
	return fmt.Sprintln(members)
}

func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	keys := []string{}
	parts := map[string][]porcupine.Operation{}
	for _, op := range history {
		key := op.Input.(Input).Key
		if _, known := parts[key]; !known {
			keys = append(keys, key)
		}
		parts[key] = append(parts[key], op)
	}
	all := [][]porcupine.Operation{}
	for _, key := range keys {
		all = append(all, parts[key])
	}
	return all
}

var models = map[string]struct {
	initial interface{}
	steps   map[string]step
}{
	"register": {0, register},
	"counter":  {0, counter},
	"set":      {"", set},
	"name":     {0, name},
	"group":    {line(nil), group},
}

const never = int64(1) << 62

func operations(history History, steps map[string]step) []porcupine.Operation {
	all := []porcupine.Operation{}
	for _, op := range history.Operations {
		if steps[op.Input.Function] == nil {
			panic(fmt.Sprintf("the model %s has no function %q", history.Model, op.Input.Function))
		}
		returned := never
		if op.Return != nil {
			returned = *op.Return
		}
		all = append(all, porcupine.Operation{ClientId: op.Client, Input: op.Input, Call: op.Call, Output: op.Output, Return: returned})
	}
	return all
}

func verdict(history History) string {
	model, known := models[history.Model]
	if !known {
		panic(fmt.Sprintf("there is no model %q", history.Model))
	}
	checked := porcupine.Model{
		Partition: byKey,
		Init:      func() interface{} { return model.initial },
		Step: func(state, in, out interface{}) (bool, interface{}) {
			return model.steps[in.(Input).Function](state, in.(Input), out.(Output))
		},
	}
	switch porcupine.CheckOperationsTimeout(checked, operations(history, model.steps), patience) {
	case porcupine.Ok:
		return "ok"
	case porcupine.Illegal:
		return "illegal"
	}
	return "unknown"
}

func fail(x interface{}) {
	fmt.Fprintln(os.Stderr, "histories:", x)
	os.Exit(2)
}

func main() {
	defer func() {
		if x := recover(); x != nil {
			fail(x)
		}
	}()
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(in)
	for decoder.More() {
		var history History
		if err := decoder.Decode(&history); err != nil {
			fail(err)
		}
		if err := out.Encode(map[string]string{"name": history.Name, "verdict": verdict(history)}); err != nil {
			fail(err)
		}
	}
}
