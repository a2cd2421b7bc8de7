(ns magnetar.bench.workload.pipelines
  "Experiment C3: Go's squaring pipeline in three styles, and what gives back the parallelism of its stages."
  (:require
   [clojure.core.async :as core-async]
   [magnetar.async :as a]
   [magnetar.fold :as fold]))

(set! *warn-on-reflection* true)

(defn- square ^long [x]
  (let [x (long x)] (* x x)))

(def ^:private squares (comp (filter even?) (map square) (map inc)))

(defmacro ^:private go-loops
  "Three loops and three channels: generate, select and square, increment; then sum, with the library `lib`."
  [lib n]
  (let [word #(symbol (str lib) %)]
    `(let [numbers# (~(word "chan")) squared# (~(word "chan")) out# (~(word "chan"))]
       (~(word "go-loop") [i# 0] (if (< (long i#) (long ~n)) (do (~(word ">!") numbers# i#) (recur (inc (long i#)))) (~(word "close!") numbers#)))
       (~(word "go-loop") [] (if-some [x# (~(word "<!") numbers#)]
                               (do (when (even? x#) (~(word ">!") squared# (square x#))) (recur))
                               (~(word "close!") squared#)))
       (~(word "go-loop") [] (if-some [x# (~(word "<!") squared#)]
                               (do (~(word ">!") out# (inc (long x#))) (recur))
                               (~(word "close!") out#)))
       (~(word "<!!") (~(word "reduce") + 0 out#)))))

(defn squaring
  "The sum of the squares of the even numbers below n, each plus one, in the styles of the article.

  Example: (squaring 20000)"
  [n]
  [["go-loops and channels" #(go-loops magnetar.async n)]
   ["go-loops and channels, core.async" #(go-loops clojure.core.async n)]
   ["channel with a transducer" #(a/<!! (a/reduce + 0 (let [c (a/chan 64 squares)] (a/onto-chan! c (range n)) c)))]
   ["channel with a transducer, core.async"
    #(core-async/<!! (core-async/reduce + 0 (let [c (core-async/chan 64 squares)] (core-async/onto-chan! c (range n)) c)))]
   ["pipeline" #(a/<!! (a/reduce + 0 (let [c (a/chan 64)] (a/pipeline 2 c squares (a/to-chan! (range n))) c)))]
   ["fold/transduce" #(fold/transduce squares + (range n))]])
