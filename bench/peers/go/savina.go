// The workloads of Savina, skynet, and those from practice that Go has: see bench/README.md. Each checks its result.
package main

import (
	"fmt"
	"math/rand"
	"sync"
	"time"
)

func check(expected, found int) {
	if expected != found {
		panic(fmt.Sprintf("%d instead of %d", found, expected))
	}
}

// n goroutines in a ring; a counter goes round until it is zero.
func threadring(n, hops int) float64 {
	return timed(func() {
		ring := make([]chan int, n)
		for i := range ring {
			ring[i] = make(chan int)
		}
		last := make(chan int)
		for i := range ring {
			in, out := ring[i], ring[(i+1)%n]
			go func(i int) {
				for left := range in {
					if left == 0 {
						last <- i
					} else {
						out <- left - 1
					}
				}
			}(i)
		}
		ring[0] <- hops
		check(hops%n, <-last)
		for _, c := range ring {
			close(c)
		}
	})
}

type bigMessage struct {
	pong bool
	from chan<- bigMessage
}

// Each of the workers sends a ping to a random other, and the next when its pong has come. A worker has one ping
// under way, so an inbox with room for all workers never blocks a sender.
func big(workers, pings int) float64 {
	return timed(func() {
		inboxes := make([]chan bigMessage, workers)
		for i := range inboxes {
			inboxes[i] = make(chan bigMessage, workers)
		}
		answered := make(chan int)
		var done sync.WaitGroup
		done.Add(workers)
		for i := range inboxes {
			go func(i int) { answered <- bigWorker(i, pings, inboxes, &done) }(i)
		}
		done.Wait()
		sum := 0
		for _, inbox := range inboxes {
			close(inbox)
		}
		for range inboxes {
			sum += <-answered
		}
		check(workers*pings, sum)
	})
}

func bigWorker(i, pings int, inboxes []chan bigMessage, done *sync.WaitGroup) int {
	inbox, random, answered := inboxes[i], rand.New(rand.NewSource(int64(i))), 0
	ping := func() {
		other := random.Intn(len(inboxes) - 1)
		if other >= i {
			other++
		}
		inboxes[other] <- bigMessage{from: inbox}
	}
	ping()
	for message := range inbox {
		if !message.pong {
			answered++
			message.from <- bigMessage{pong: true}
			continue
		}
		pings--
		if pings == 0 {
			done.Done()
		} else {
			ping()
		}
	}
	return answered
}

func skynet(leaves int) float64 {
	return timed(func() {
		sum := make(chan int)
		go skynetNode(sum, 0, leaves)
		check(leaves*(leaves-1)/2, <-sum)
	})
}

func skynetNode(parent chan<- int, number, size int) {
	if size == 1 {
		parent <- number
		return
	}
	parts, part, sum := make(chan int), size/10, 0
	for i := 0; i < 10; i++ {
		go skynetNode(parts, number+i*part, part)
	}
	for i := 0; i < 10; i++ {
		sum += <-parts
	}
	parent <- sum
}

const (
	no = -1 - iota
	traverse
	end
)

// What the nodes of a tree share.
type uctRoot struct {
	questions chan chan<- int // with the inbox of the node that asks
	values    chan int
}

func nextRandom(x int) int {
	return (x*1103515245 + 12345) & 0x7fffffff
}

func compute(work int) int {
	x := work
	for i := 0; i < work; i++ {
		x = nextRandom(x)
	}
	return x
}

// A tree grows until it has so many nodes, is traversed from the top, and torn down from the top.
func uct(most int) float64 {
	return timed(func() {
		root := &uctRoot{make(chan chan<- int), make(chan int)}
		children, sizes := root.spawn(1)
		nodes, random := 10, 1
		for asked := 0; asked < nodes; asked++ {
			node := <-root.questions
			random = nextRandom(random)
			if random&0x10000 != 0 && nodes+10 <= most {
				nodes += 10
				node <- random >> 8 % 100
			} else {
				node <- no
			}
		}
		check(most, nodes)
		tell(children, traverse)
		for i := 0; i < nodes; i++ {
			<-root.values
		}
		tell(children, end)
		check(most, sum(sizes))
	})
}

// Ten nodes, and the channel for the sizes of what is below each.
func (root *uctRoot) spawn(work int) ([]chan int, chan int) {
	children, sizes := make([]chan int, 10), make(chan int)
	for i := range children {
		inbox := make(chan int, 1)
		children[i] = inbox
		go root.node(inbox, sizes, work)
	}
	return children, sizes
}

func (root *uctRoot) node(inbox chan int, parent chan<- int, work int) {
	var children []chan int
	var sizes chan int
	root.questions <- inbox
	if answer := <-inbox; answer != no {
		children, sizes = root.spawn(answer)
	}
	<-inbox // traverse
	root.values <- compute(work)
	tell(children, traverse)
	<-inbox // end
	tell(children, end)
	if children == nil {
		parent <- 1
	} else {
		parent <- 1 + sum(sizes)
	}
}

func tell(nodes []chan int, order int) {
	for _, node := range nodes {
		node <- order
	}
}

func sum(sizes <-chan int) int {
	sum := 0
	for i := 0; i < 10; i++ {
		sum += <-sizes
	}
	return sum
}

func fib(n int) float64 {
	return timed(func() {
		a, b := 0, 1
		for i := 0; i < n; i++ {
			a, b = b, a+b
		}
		check(a, <-fibonacci(n))
	})
}

func fibonacci(n int) <-chan int {
	c := make(chan int, 1)
	go func() {
		if n < 2 {
			c <- n
		} else {
			a, b := fibonacci(n-1), fibonacci(n-2)
			c <- <-a + <-b
		}
	}()
	return c
}

type event struct {
	topic string
	n     int
}

type subscriber struct {
	events  chan event
	sliding bool
}

// Sends the event; a subscriber that slides loses its oldest one when its buffer is full.
func (s subscriber) send(e event) {
	if !s.sliding {
		s.events <- e
		return
	}
	for {
		select {
		case s.events <- e:
			return
		default:
		}
		select {
		case <-s.events:
		default:
		}
	}
}

func publish(source <-chan event, topics map[string][]subscriber) {
	for e := range source {
		for _, s := range topics[e.topic] {
			s.send(e)
		}
	}
	for _, subscribers := range topics {
		for _, s := range subscribers {
			close(s.events)
		}
	}
}

// A topic with subscribers, some of which wait a millisecond after each event and miss what they have no room for.
func pubsub(subscribers, slow, events int) float64 {
	return timed(func() {
		source, topics, seen := make(chan event, 64), map[string][]subscriber{}, make(chan int)
		for i := 0; i < subscribers; i++ {
			s := subscriber{make(chan event, 64), false}
			if i < slow {
				s = subscriber{make(chan event, 4), true}
				go func() { seen <- s.lastSeen() }()
			} else {
				go func() { seen <- s.seenInOrder() }()
			}
			topics["price"] = append(topics["price"], s)
		}
		go publish(source, topics)
		for n := 0; n < events; n++ {
			source <- event{"price", n}
		}
		close(source)
		for i := 0; i < subscribers; i++ {
			check(events, <-seen)
		}
	})
}

func (s subscriber) seenInOrder() int {
	seen := 0
	for e := range s.events {
		if e.n == seen {
			seen++
		}
	}
	return seen
}

func (s subscriber) lastSeen() int {
	last := -1
	for e := range s.events {
		last = e.n
		time.Sleep(time.Millisecond)
	}
	return last + 1
}
