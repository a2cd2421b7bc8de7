// The workloads of bench/README.md in Go. Reads lines `workload number ..`, answers each with the nanoseconds it took
// (for `memory`: bytes of resident memory for each goroutine; for `echo`: the port it listens on; for `computing`: several numbers).
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

func timed(work func()) float64 {
	start := time.Now()
	work()
	return float64(time.Since(start).Nanoseconds())
}

// A token goes `rounds` times around n goroutines, over n channels without a buffer.
func ring(n, rounds int) float64 {
	channels := make([]chan int, n)
	for i := range channels {
		channels[i] = make(chan int)
	}
	done := make(chan bool)
	for i := range channels {
		in, out, last := channels[i], channels[(i+1)%n], i == n-1
		go func() {
			for r := 0; r < rounds; r++ {
				token := <-in
				if last && r == rounds-1 {
					done <- true
				} else {
					out <- token + 1
				}
			}
		}()
	}
	settle(n)
	return timed(func() {
		channels[0] <- 0
		<-done
	})
}

// Lets n goroutines get to where they wait.
func settle(n int) {
	time.Sleep(time.Duration(3*n) * time.Microsecond)
}

func pingPong(n int) float64 {
	to, fro := make(chan int), make(chan int)
	go func() {
		for i := 0; i < n; i++ {
			fro <- <-to
		}
	}()
	return timed(func() {
		for i := 0; i < n; i++ {
			to <- i
			<-fro
		}
	})
}

func fanIn(producers, buffer, n int) float64 {
	c := make(chan int, buffer)
	share := n / producers
	return timed(func() {
		for p := 0; p < producers; p++ {
			go func() {
				for i := 0; i < share; i++ {
					c <- i
				}
			}()
		}
		for i := 0; i < share*producers; i++ {
			<-c
		}
	})
}

type request struct {
	number int
	reply  chan int
}

// A goroutine that adds the numbers it gets, and answers each with the sum.
func adder() chan request {
	server := make(chan request, 128)
	go func() {
		sum := 0
		for r := range server {
			sum += r.number
			r.reply <- sum
		}
	}()
	return server
}

func call(callers, n int) float64 {
	server := adder()
	share := n / callers
	took := timed(func() {
		var all sync.WaitGroup
		all.Add(callers)
		for c := 0; c < callers; c++ {
			go func() {
				reply := make(chan int, 1)
				for i := 0; i < share; i++ {
					server <- request{1, reply}
					<-reply
				}
				all.Done()
			}()
		}
		all.Wait()
	})
	close(server)
	return took
}

func selectOf2(buffer, n int) float64 {
	a, b := make(chan int, buffer), make(chan int, buffer)
	for _, c := range []chan int{a, b} {
		go func() {
			for i := 0; i < n/2; i++ {
				c <- i
			}
		}()
	}
	return timed(func() {
		for i := 0; i < n/2*2; i++ {
			select {
			case <-a:
			case <-b:
			}
		}
	})
}

func selectOf10(buffer, n int) float64 {
	cs := make([]chan int, 10)
	for i := range cs {
		c := make(chan int, buffer)
		cs[i] = c
		go func() {
			for i := 0; i < n/10; i++ {
				c <- i
			}
		}()
	}
	return timed(func() {
		for i := 0; i < n/10*10; i++ {
			select {
			case <-cs[0]:
			case <-cs[1]:
			case <-cs[2]:
			case <-cs[3]:
			case <-cs[4]:
			case <-cs[5]:
			case <-cs[6]:
			case <-cs[7]:
			case <-cs[8]:
			case <-cs[9]:
			}
		}
	})
}

// Takes from whichever of width channels has a value, by reflection: a select statement has a fixed number of cases.
func selectOfMany(width, buffer, n int) float64 {
	cases := make([]reflect.SelectCase, width)
	for i := range cases {
		c := make(chan int, buffer)
		cases[i] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)}
		go func() {
			for i := 0; i < n/width; i++ {
				c <- i
			}
		}()
	}
	return timed(func() {
		for i := 0; i < n/width*width; i++ {
			reflect.Select(cases)
		}
	})
}

func spawn(n int) float64 {
	return timed(func() {
		var all sync.WaitGroup
		all.Add(n)
		for i := 0; i < n; i++ {
			go func() { all.Done() }()
		}
		all.Wait()
	})
}

func resident() float64 {
	text, _ := os.ReadFile("/proc/self/statm")
	pages, _ := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	return pages * 4096
}

// Goroutines that each wait on a channel of their own.
func memory(n int) float64 {
	runtime.GC()
	before := resident()
	cs := make([]chan int, n)
	for i := range cs {
		c := make(chan int)
		cs[i] = c
		go func() { <-c }()
	}
	time.Sleep(3 * time.Second)
	bytes := (resident() - before) / float64(n)
	runtime.KeepAlive(cs)
	return bytes
}

func timers(n int) float64 {
	return timed(func() {
		all := make([]*time.Timer, n)
		for i := range all {
			all[i] = time.NewTimer(10*time.Second + time.Duration(i%1000)*time.Millisecond)
		}
		for _, t := range all {
			t.Stop()
		}
	})
}

// The values of a function that adds one, each call in a goroutine of its own, in order.
func pmap(n int) float64 {
	in, out := make([]int, n), make([]int, n)
	for i := range in {
		in[i] = 1
	}
	took := timed(func() {
		var all sync.WaitGroup
		all.Add(n)
		for i := range in {
			go func() {
				out[i] = in[i] + 1
				all.Done()
			}()
		}
		all.Wait()
	})
	sum := 0
	for _, x := range out {
		sum += x
	}
	if sum != 2*n {
		panic("pmap lost a value")
	}
	return took
}

// Start one, wait for its end, start the next.
func spawnJoin(n int) float64 {
	return timed(func() {
		for i := 0; i < n; i++ {
			end := make(chan int)
			go func() { end <- i }()
			<-end
		}
	})
}

func factors(n int64) int {
	count := 0
	for p := int64(2); ; {
		if n == 1 {
			return count
		}
		if n%p == 0 {
			count++
			n /= p
			continue
		}
		if p*p >= n {
			return count + 1
		}
		if p > 2 {
			p += 2
		} else {
			p++
		}
	}
}

func mixed(sleepers, workers int) float64 {
	c := make(chan int)
	return timed(func() {
		for i := 0; i < sleepers; i++ {
			go func() { time.Sleep(250 * time.Millisecond); c <- 1 }()
		}
		for i := 0; i < workers; i++ {
			go func() { c <- factors(1548587 * 982451653) }()
		}
		for i := 0; i < sleepers+workers; i++ {
			<-c
		}
	})
}

func sleep(n int) float64 {
	c := make(chan int)
	return timed(func() {
		for i := 0; i < n; i++ {
			go func() { time.Sleep(10 * time.Millisecond); c <- 1 }()
		}
		for i := 0; i < n; i++ {
			<-c
		}
	})
}

func crawl(port, pages int) float64 {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: pages}}
	return timed(func() {
		c := make(chan int)
		for i := 0; i < pages; i++ {
			go func() {
				answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/%d", port, i))
				if err != nil {
					panic(err)
				}
				body, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				if string(body) != fmt.Sprintf("page /%d", i) {
					panic("not page " + strconv.Itoa(i))
				}
				c <- len(body)
			}()
		}
		for i := 0; i < pages; i++ {
			<-c
		}
	})
}

func echo() float64 {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			socket, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer socket.Close()
				io.Copy(socket, onlyReader{socket})
			}()
		}
	}()
	return float64(server.Addr().(*net.TCPAddr).Port)
}

// Without this, io.Copy would move the bytes inside of the kernel.
type onlyReader struct{ io.Reader }

func numbers(words []string) []int {
	n := make([]int, 4)
	for i, word := range words {
		n[i], _ = strconv.Atoi(word)
	}
	return n
}

func work(words []string) float64 {
	if words[0] == "times" {
		times, _ := strconv.Atoi(words[1])
		sum := 0.0
		for i := 0; i < times; i++ {
			sum += work(words[2:])
		}
		return sum
	}
	n := numbers(words[1:])
	switch words[0] {
	case "ring":
		return ring(n[0], n[1])
	case "ping-pong":
		return pingPong(n[0])
	case "fan-in":
		return fanIn(n[0], n[1], n[2])
	case "call":
		return call(n[0], n[1])
	case "select":
		switch n[0] {
		case 2:
			return selectOf2(n[1], n[2])
		case 10:
			return selectOf10(n[1], n[2])
		}
		return selectOfMany(n[0], n[1], n[2])
	case "spawn":
		return spawn(n[0])
	case "spawn-join":
		return spawnJoin(n[0])
	case "pmap":
		return pmap(n[0])
	case "memory":
		return memory(n[0])
	case "timers":
		return timers(n[0])
	case "mixed":
		return mixed(n[0], n[1])
	case "sleep":
		return sleep(n[0])
	case "crawl":
		return crawl(n[0], n[1])
	case "echo":
		return echo()
	case "threadring":
		return threadring(n[0], n[1])
	case "big":
		return big(n[0], n[1])
	case "skynet":
		return skynet(n[0])
	case "uct":
		return uct(n[0])
	case "fib":
		return fib(n[0])
	case "pubsub":
		return pubsub(n[0], n[1], n[2])
	}
	panic("no workload " + words[0])
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		runtime.GC()
		words := strings.Fields(lines.Text())
		if words[0] == "computing" {
			n := numbers(words[1:])
			fmt.Println(computing(n[0], n[1], n[2]))
		} else {
			fmt.Printf("%.1f\n", work(words))
		}
	}
}
