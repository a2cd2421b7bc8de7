// Goroutines that compute beside others that wait and one that answers: see bench/README.md.
package main

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

func endless(stop *atomic.Bool, sink *atomic.Int64) {
	x := int64(1)
	for !stop.Load() {
		x = (x*1103 + 12345) & 0x7fffffff
	}
	sink.Add(x)
}

// The ticks before the end.
func tick(end time.Time, ticks chan<- int) {
	n := 0
	for {
		time.Sleep(10 * time.Millisecond)
		if !time.Now().Before(end) {
			ticks <- n
			return
		}
		n++
	}
}

// When each call began, and how long it took, in microseconds.
func calls(server chan<- request, start, end time.Time, found chan<- []int64) {
	reply := make(chan int, 1)
	var all []int64
	for {
		before := time.Now()
		if !before.Before(end) {
			found <- all
			return
		}
		server <- request{1, reply}
		<-reply
		all = append(all, before.Sub(start).Microseconds(), time.Since(before).Microseconds())
		time.Sleep(time.Millisecond)
	}
}

// The ticks of all tickers, and the calls, as words.
func computing(loops, tickers, ms int) string {
	server := adder()
	var stop atomic.Bool
	var sink atomic.Int64
	ticks, found := make(chan int), make(chan []int64)
	start := time.Now()
	end := start.Add(time.Duration(ms) * time.Millisecond)
	for i := 0; i < tickers; i++ {
		go tick(end, ticks)
	}
	go calls(server, start, end, found)
	for i := 0; i < loops; i++ {
		go endless(&stop, &sink)
	}
	time.Sleep(time.Until(end))
	stop.Store(true)
	sum := 0
	for i := 0; i < tickers; i++ {
		sum += <-ticks
	}
	words := []string{strconv.Itoa(sum)}
	for _, number := range <-found {
		words = append(words, strconv.FormatInt(number, 10))
	}
	close(server)
	return strings.Join(words, " ")
}
