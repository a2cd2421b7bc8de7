(ns magnetar.bench.peers.template
  "The workloads of channels, written once in the words of core.async and expanded for a library and a kind of its fibers.

  As in `magnetar.bench.template`, `async/x` becomes the library's own public `x`, and `start`, `take`, `put` and `alts` the names that
  suit the kind. What takes time runs in a fiber of that kind, as it runs in a goroutine or a coroutine elsewhere."
  (:require
   [clojure.walk :as walk]
   [magnetar.bench.peers.serve :as serve]))

(def ^:private kinds
  '{:go {start async/go, take async/<!, put async/>!, alts async/alts!}
    :io {start async/io-thread, take async/<!!, put async/>!!, alts async/alts!!}})

(def ^:private workloads
  '{"ring"
    (fn [n rounds]
      (let [n (long n) rounds (long rounds)
            cs (vec (repeatedly n #(async/chan)))
            done (async/chan)]
        (dotimes [i n]
          (let [in (nth cs i) out (nth cs (rem (inc i) n)) last? (= i (dec n))]
            (start (loop [r 0]
                     (when (< r rounds)
                       (let [token (take in)]
                         (if (and last? (= r (dec rounds)))
                           (put done true)
                           (put out (inc (long token)))))
                       (recur (inc r)))))))
        (serve/settle n)
        (measured (put (nth cs 0) 0) (take done))))

    "ping-pong"
    (fn [n]
      (let [n (long n) to (async/chan) fro (async/chan)]
        (start (loop [i 0]
                 (when (< i n)
                   (put fro (take to))
                   (recur (inc i)))))
        (measured (loop [i 0]
                    (when (< i n)
                      (put to i)
                      (take fro)
                      (recur (inc i)))))))

    "fan-in"
    (fn [producers buffer n]
      (let [producers (long producers)
            c (if (pos? (long buffer)) (async/chan buffer) (async/chan))
            share (quot (long n) producers)
            all (* share producers)]
        (measured
          (loop [p 0]
            (when (< p producers)
              (start (loop [i 0]
                       (when (< i share)
                         (put c i)
                         (recur (inc i)))))
              (recur (inc p))))
          (loop [i 0]
            (when (< i all)
              (take c)
              (recur (inc i)))))))

    "call"
    (fn [callers n]
      (let [callers (long callers) share (quot (long n) callers)
            requests (async/chan 128) done (async/chan callers)]
        (start (loop [sum 0]
                 (when-some [request (take requests)]
                   (let [sum (+ sum (long (nth request 0)))]
                     (put (nth request 1) sum)
                     (recur sum)))))
        (let [took (measured
                     (loop [c 0]
                       (when (< c callers)
                         (start (let [reply (async/chan 1)]
                                  (loop [i 0]
                                    (when (< i share)
                                      (put requests [1 reply])
                                      (take reply)
                                      (recur (inc i))))
                                  (put done true)))
                         (recur (inc c))))
                     (loop [c 0]
                       (when (< c callers)
                         (take done)
                         (recur (inc c)))))]
          (async/close! requests)
          took)))

    "select"
    (fn [width buffer n]
      (let [cs (vec (repeatedly width #(if (pos? (long buffer)) (async/chan buffer) (async/chan))))
            share (quot (long n) (long width))
            all (* share (long width))]
        (doseq [c cs]
          (start (loop [i 0]
                   (when (< i share)
                     (put c i)
                     (recur (inc i))))))
        (measured (loop [i 0]
                    (when (< i all)
                      (alts cs)
                      (recur (inc i)))))))

    "spawn"
    (fn [n]
      (let [left (serve/latch n)]
        (measured
          (dotimes [_ n]
            (start (serve/count-down left)))
          (serve/await-zero left))))

    "spawn-join"
    (fn [n]
      (measured (loop [i 0]
                  (when (< i (long n))
                    (take (start i))
                    (recur (inc i))))))

    "pmap"
    (fn [n]
      (async/<!!
        (async/io-thread
          (serve/all-increased n
            (fn [in]
              (mapv (fn [c] (async/<!! c))
                (mapv (fn [x] (start (inc (long x)))) in)))))))

    "echo"
    (fn []
      (serve/echo-server (fn [f] (start (f)))))

    "memory"
    (fn [n]
      (serve/bytes-each n #(let [c (async/chan)] (start (take c)) c)))

    "mixed"
    (fn [sleepers workers]
      (let [sleepers (long sleepers) workers (long workers) c (async/chan)]
        (measured
          (loop [i 0]
            (when (< i sleepers)
              (start (Thread/sleep 250) (put c 1))
              (recur (inc i))))
          (loop [i 0]
            (when (< i workers)
              (start (put c (serve/factors (* 1548587 982451653))))
              (recur (inc i))))
          (loop [i 0]
            (when (< i (+ sleepers workers))
              (take c)
              (recur (inc i)))))))

    "sleep"
    (fn [n]
      (let [n (long n) c (async/chan)]
        (measured
          (loop [i 0]
            (when (< i n)
              (start (Thread/sleep 10) (put c 1))
              (recur (inc i))))
          (loop [i 0]
            (when (< i n)
              (take c)
              (recur (inc i)))))))

    "crawl"
    (fn [port pages]
      (let [client (java.net.http.HttpClient/newHttpClient)
            c (async/chan)]
        (measured
          (loop [i 0]
            (when (< i (long pages))
              (start (put c (serve/fetch client port i)))
              (recur (inc i))))
          (loop [i 0]
            (when (< i (long pages))
              (take c)
              (recur (inc i)))))))})

(defn- in-library
  "`async/x` as the library's name, and the names of what all share in full."
  [library x]
  (case (namespace x)
    "async" (symbol (name library) (name x))
    "serve" (symbol "magnetar.bench.peers.serve" (name x))
    x))

(defn- expanded [library words form]
  (walk/postwalk
    (fn [x]
      (cond (and (seq? x) (= 'measured (first x))) (list (symbol (name library) "<!!") (list (in-library library ('start words)) (cons `serve/nanos (rest x))))
            (symbol? x) (in-library library x)
            :else x))
    (walk/postwalk-replace words form)))

(defmacro channel-workloads
  "The map of workloads for a library and the kind of its fibers, `:go` or `:io`.

  Example: (channel-workloads clojure.core.async :io)"
  [library kind]
  (into {} (for [[named form] workloads] [named (expanded library (kinds kind) form)])))
