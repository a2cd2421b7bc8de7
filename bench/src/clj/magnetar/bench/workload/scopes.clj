(ns magnetar.bench.workload.scopes
  "What `magnetar.scope` and its context values are measured with, beside the JDK's virtual threads and Go."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.bench.child :as child]
   [magnetar.bench.machine :as machine]
   [magnetar.fold :as fold]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.scope.context :refer [defcontext with-context]])
  (:import
   (java.io File)
   (java.util.concurrent Callable Executors Future)))

(set! *warn-on-reflection* true)

;; ---- F: pmap and what travels with it

(def ^:dynamic ^:private *settings* nil)
(defcontext ^:private settings)

(def ^:private values
  {:increase 1 :colors {:red 1 :blue 2 :green 3} :a "A bunch of context stuff" :b "B bunch of context stuff" :c "C bunch of context stuff"})

(defn- add [x values]
  (+ (long x) (long (:increase values))))

(defn- add-dynamic [x] (add x *settings*))
(defn- add-context [x] (add x @settings))

(defn- on-executor
  "The values of f, each call a task of an executor of virtual threads, as the article has it."
  [f coll]
  (with-open [executor (Executors/newVirtualThreadPerTaskExecutor)]
    (let [futures (mapv #(.submit executor ^Callable (fn [] (f %))) coll)]
      (mapv #(.get ^Future %) futures))))

(defn travel
  "pmap of n elements, each on a fiber of its own, whose function adds a number of a map that it finds in four ways.

  Example: (travel 500000)"
  [n]
  (let [coll (vec (repeat n 1))]
    [["explicit argument" #(let [c values] (fold/pmap (fn [x] (add x c)) coll))]
     ["context value" #(with-context [settings values] (fold/pmap add-context coll))]
     ["dynamic var, by frame" #(binding [*settings* values] (fold/pmap add-dynamic coll))]
     ["bound-fn*" #(binding [*settings* values] (fold/pmap (bound-fn* add-dynamic) coll))]
     ["executor, explicit argument" #(let [c values] (on-executor (fn [x] (add x c)) coll))]
     ["executor, bound-fn*" #(binding [*settings* values] (on-executor (bound-fn* add-dynamic) coll))]]))

;; ---- fork and join

(defn- on-a-fiber
  "The value of (f scope), called in a fork of that scope."
  [f]
  (with-scope [s] @(fork s f s)))

(defn- nothing [] nil)

(defn fork-and-join
  "n times: start a fiber and wait for its end, from inside a fiber.

  Example: (fork-and-join 100000)"
  [n]
  [["fork, join" (fn [] (on-a-fiber #(dotimes [_ n] @(fork % nothing))))]
   ["startVirtualThread, join" (fn [] (on-a-fiber (fn [_] (dotimes [_ n] (.join (Thread/startVirtualThread nothing))))))]])

(defn fork-all-and-join
  "Start n fibers and wait for the end of all, from inside a fiber.

  Example: (fork-all-and-join 100000)"
  [n]
  [["fork, join" (fn [] (on-a-fiber (fn [s] (run! #(scope/join %) (mapv (fn [_] (fork s nothing)) (range n))))))]
   ["startVirtualThread, join" (fn [] (on-a-fiber (fn [_] (run! #(.join ^Thread %) (mapv (fn [_] (Thread/startVirtualThread nothing)) (range n))))))]])

;; ---- sleepers

(def ^:private go-program
  "package main

import (
	\"fmt\"
	\"os\"
	\"strconv\"
	\"sync\"
	\"time\"
)

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	start := time.Now()
	var all sync.WaitGroup
	all.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			time.Sleep(time.Second)
			all.Done()
		}()
	}
	all.Wait()
	fmt.Println(float64(time.Since(start).Nanoseconds()) / 1e6)
}
")

(defn- go-command
  "The path of Go's command, or nil."
  []
  (let [folders (cons "/usr/local/go/bin" (str/split (or (System/getenv "PATH") "") (re-pattern File/pathSeparator)))]
    (some (fn [folder] (let [file (io/file folder "go")] (when (.canExecute file) (str file)))) folders)))

(defn- built-by
  "The program, built by Go into a folder of its own."
  ^File [go]
  (let [folder (.toFile (java.nio.file.Files/createTempDirectory "magnetar-sleepers" (make-array java.nio.file.attribute.FileAttribute 0)))
        [source program] (map #(io/file folder %) ["sleepers.go" "sleepers"])]
    (spit source go-program)
    (child/output [go "build" "-o" program source])
    (run! #(.deleteOnExit ^File %) [folder source program])
    program))

(defn sleepers
  "n fibers that sleep a second, from the first start to the last end, beside as many goroutines where Go is installed.

  Example: (sleepers 100000)"
  [n]
  (let [go (some-> (go-command) built-by)]
    (cond-> [["fork, sleep" #(with-scope [s] (dotimes [_ n] (fork s scope/sleep 1000)))]]
      go (conj ["Go" (fn [] {:ms (parse-double (str/trim (child/output [go n])))})]))))
