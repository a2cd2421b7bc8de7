// The routes of magnetar.bench.http in Go, for wrk and h2load: GET /hello answers a line, POST /echo the body of the request.
//
//	go run . 8080
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

func hello(response http.ResponseWriter, _ *http.Request) {
	response.Header().Set("Content-Type", "text/plain")
	io.WriteString(response, "hello world\n")
}

func echo(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(response, "bad body", http.StatusBadRequest)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	response.Write(body)
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	http.HandleFunc("/hello", hello)
	http.HandleFunc("/echo", echo)
	fmt.Println("listens on", listener.Addr().(*net.TCPAddr).Port)
	fmt.Fprintln(os.Stderr, http.Serve(listener, nil))
	os.Exit(1)
}
