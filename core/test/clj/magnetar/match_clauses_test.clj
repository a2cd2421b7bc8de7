(ns magnetar.match-clauses-test
  "The clauses of `receive` and `match`: their grammar, their errors, what they become and what that costs."
  {:wakes false}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [clojure.walk :as walk]
   [magnetar.impl.match.clauses :as clauses]
   [magnetar.impl.runtime]
   [magnetar.match :refer [match]]
   [magnetar.match-support :refer [taking]])
  (:import
   (magnetar.kernel.process Clauses Matcher)))

(set! *warn-on-reflection* true)

;; --- clauses

(deftest the-first-clause-that-matches-is-taken
  (is (= :second (match [1 2] [1] :first [_ 2] :second [1 2] :third))))

(deftest a-body-runs-once-in-tail-position
  (is (= 10 (loop [n 0] (match n (k :guard #(< % 10)) (recur (inc (long k))) k k))))
  (is (= 100000 (loop [n 0, m [:count 100000]]
                  (taking m
                    [:count 0]  n
                    [:count k]  (recur (inc n) [:count (dec (long k))]))))))

(deftest match-says-what-it-could-not-match
  (let [error (try (match [:x 1] [:a b] b "text" 2) (catch IllegalArgumentException e e))]
    (is (re-matches #"match at .*match_clauses_test.clj:\d+: no clause matches \[:x 1\]; add one, or :else. The patterns are \[:a b\], \"text\"\."
                    (ex-message error)))
    (is (= {:magnetar/reason :magnetar/no-matching-clause, :value [:x 1], :patterns ["[:a b]" "\"text\""]} (ex-data error)))))

(deftest match-shortens-a-large-value
  (is (> 600 (count (ex-message (try (match (vec (repeat 1000 (apply str (repeat 1000 "x")))) 1 1)
                                     (catch IllegalArgumentException e e)))))))

(deftest match-evaluates-its-value-once
  (let [calls (atom 0)]
    (is (= 1 (match (swap! calls inc) 5 :five n n)))
    (is (= 1 @calls))))

(defmacro replying
  "A macro with a `receive` in its syntax-quote, as users write them."
  [message tag]
  `(taking ~message
     [~tag value# ~'_] [:value value#]
     [:other _#] :other
     (after 10 :late)))

(deftest clauses-stand-in-the-syntax-quote-of-a-macro
  (is (= [:value 5] (replying [:reply 5 6] :reply)))
  (is (= :other (replying [:other 5] :reply)))
  (is (= :late (replying :none :reply)))
  (is (= {} (taking [1 2] [magnetar.match-clauses-test/_ _] {}))))

(defn- parsed [& forms]
  (clauses/clauses {'pid 1, 'tag 2, '_old 3} (with-meta '(receive) {:line 7}) forms))

(deftest clauses-come-as-data
  (let [{:keys [matcher] :as found} (parsed '[tag {:pid pid} x] 'body-1 '_ 'body-2
                                            '(from (port) v 1 2) '(from other {:keys [a]}) '(after (timeout) 3 4))]
    (is (seq? matcher))
    (is (= {:clauses [{:number 0, :locals '[x], :body '[body-1]}
                      {:number 1, :locals [], :body '[body-2]}]
            :from '[{:channel (port), :local v, :body [1 2]} {:channel other, :local {:keys [a]}, :body []}]
            :after '{:timeout (timeout), :body [3 4]}
            :pinned '[[tag] []]
            :pins '[[tag pid] []]
            :text ["[tag {:pid pid} x]" "_"]}
           (dissoc found :matcher :message :analyzed)))
    (is (= [[:locals '[x]] [:locals []]] (map #(find % :locals) (:analyzed found))))))

(deftest after-alone-needs-no-matcher
  (let [found (parsed '(after 10 :done))]
    (is (= `Clauses/NONE (:matcher found)))
    (is (= [] (:clauses found) (:from found)))
    (is (= '{:timeout 10, :body [:done]} (:after found)))
    (is (nil? (:after (parsed '[pid] 1))))))

(deftest after-and-from-are-known-by-their-var-and-by-syntax-quote
  (doseq [marker '[after magnetar.actor/after some.macro.ns/after]]
    (is (= 10 (:timeout (:after (parsed 'x 1 (list marker 10))))) marker))
  (doseq [marker '[from magnetar.actor/from some.macro.ns/from]]
    (is (= 'ch (:channel (first (:from (parsed (list marker 'ch 'v)))))) marker)))

(defn after [x] [:called x])

(deftest a-function-of-the-user-named-after-may-be-called-in-a-body
  (is (= [:called 5] (taking 1 1 (after 5) (after 10 :late))))
  (is (= 6 (let [after inc] (taking 1 1 (after 5))))))

(deftest a-list-with-a-keyword-of-core-match-second-is-a-pattern
  (is (= [:then 1] (taking 1 (after :guard int?) [:then after])))
  (is (= 1 (count (:clauses (parsed '(after :as from) 'body))))))

(deftest an-answer-without-bindings-is-a-constant
  (let [matcher ^Matcher (eval (:matcher (parsed '[:a _] 1 :b 2 '[x] 3)))]
    (is (= 0 (.match matcher [:a 1])))
    (is (identical? (.match matcher :b) (.match matcher :b)))
    (is (= [2 9] (vec (.match matcher [9]))))
    (is (nil? (.match matcher :c)))))

(deftest many-bindings-come-out-in-order
  (is (= (range 8) (match (vec (range 8)) [a b c d e f g h] [a b c d e f g h]))))

;; --- binaries

(deftest RCV-22-a-binary-is-split-and-a-short-one-left
  (when (io/resource "magnetar/bits.clj")
    (let [split (binding [*ns* (the-ns 'magnetar.match-clauses-test)]
                  (eval '(fn [message]
                           (match message
                             (bits [[len 16] [body :binary len] [rest :binary]]) [len (vec body) (vec rest)]
                             [:n n (bits '[[body :binary n]])] [:inner (vec body)]
                             _ :left))))]
      (is (= [3 [97 98 99] [122]] (split (byte-array [0 3 97 98 99 122]))))
      (is (= :left (split (byte-array [0 9 1]))))
      (is (= [:inner [1 2]] (split [:n 2 (byte-array [1 2])])))
      (is (= :left (split [:n 3 (byte-array [1 2])]))))))

;; --- what core.match leaves behind

(deftest an-expansion-names-nothing-of-core-match
  (let [form (:matcher (parsed '[:a {:k x}] 1 '{:j {:k [y & r]}} 2 '([h & t] :seq) 3 '(:or 1 {:k 2}) 4))]
    (is (= [] (filter #(and (symbol? %) (= "clojure.core.match" (namespace %))) (tree-seq coll? seq form))))))

;; --- what is wrong

(def ^:private flaws
  "The forms of a `receive`, and what is said about them."
  '[([:a x])
    "the clause [:a x] has no body: write a form after the pattern."
    ([:a x] 1 [:b])
    "the clause [:b] has no body: write a form after the pattern."
    ([:a x] (after 10 1))
    "the clause [:a x] has no body: write a form after the pattern."
    ([:a x] (from ch v 1))
    "the clause [:a x] has no body: write a form after the pattern."
    (1 1 (after 10 1) (after 20 2))
    "there are two (after ..) clauses, the second one is (after 20 2): keep one, at the end."
    (1 1 (after 10 1) 2 2)
    "2 stands after the (after ..) clause: (after ..) comes last."
    ((after 10 1) (from ch v 1))
    "(from ch v 1) stands after the (after ..) clause: (after ..) comes last."
    ((from ch v 1) [:a] 2)
    "the pattern [:a] stands after a (from ..) clause: patterns come first, then (from ..), then (after ..)."
    ((after))
    "(after) has no timeout: write (after ms body ..)."
    ((from))
    "(from) has no channel: write (from channel name body ..)."
    ((from ch))
    "(from ch) has no name for the value: write (from channel name body ..)."
    ((from ch some.ns/v 1))
    "in (from ch some.ns/v 1) the name of the value is some.ns/v: write a symbol there, in a macro one with # at its end."
    (:else 1 2 2)
    ":else must be the last pattern; write ':else for the keyword itself."
    ([:a String] 1)
    "the pattern [:a String] has the symbol String, which names the class java.lang.String: to test for it write (x :guard #(instance? String %))."
    ([:a some.ns/x] 1)
    "the pattern [:a some.ns/x] has the qualified symbol some.ns/x, which can be no local: in a macro write ~'x or x#; for its value, bind that to a local first."
    ([:a &] 1)
    "in [:a &] one pattern must follow the &, and nothing else."
    ([:a & x y] 1)
    "in [:a & x y] one pattern must follow the &, and nothing else."
    ([:a & & x] 1)
    "in [:a & & x] one pattern must follow the &, and nothing else."
    (& 1)
    "in & the & stands outside of a vector: write [x & others]."
    ([x :guard even?] 1)
    "in [x :guard even?] :guard stands between two patterns: write the three as a list, (x :guard even?), or ':guard for the keyword itself."
    ([x y :as z] 1)
    "in [x y :as z] :as stands between two patterns: write the three as a list, (y :as z), or ':as for the keyword itself."
    ((foo x) 1)
    "the list (foo x) is no pattern: write it quoted for its value, or ([..] :seq), (:or ..), (p :guard f), (p :when test), (p :as x), (p :<< f), ({..} :only [..]), (bits [..])."
    ((x :guard) 1)
    "the pattern (x :guard) must have one form behind :guard."
    ((x :guard int? :as y) 1)
    "the pattern (x :guard int? :as y) must have one form behind :guard."
    (([x] :seq 2) 1)
    "the pattern ([x] :seq 2) must have nothing behind :seq."
    ((x :seq) 1)
    "in (x :seq) a vector must stand before :seq."
    ((x :only [:k]) 1)
    "in (x :only [:k]) a map must stand before :only, and a vector of its keys behind it."
    (({:k x} :only :k) 1)
    "in ({:k x} :only :k) a map must stand before :only, and a vector of its keys behind it."
    ((x :as 5) 1)
    "in (x :as 5) a symbol must stand behind :as."
    ((:or) 1)
    "(:or) has no alternatives: it would match nothing."
    ((:or [:a x] [:b y]) 1)
    "in (:or [:a x] [:b y]) the symbol x is bound by one alternative and not by another: bind the same symbols in each."
    ({k x} 1)
    "in the pattern {k x} the set element or key k is no value: quote it, or bind it to a local first."
    ({(f) x} 1)
    "in the pattern {(f) x} the set element or key (f) is no value: quote it, or bind it to a local first."
    (#{x 1} 1)
    "in the pattern #{x 1} the set element or key x is no value: quote it, or bind it to a local first."
    (#{[(f)]} 1)
    "in the pattern #{[(f)]} the set element or key (f) is no value: quote it, or bind it to a local first."
    ({[x] 1} 1)
    "in the pattern {[x] 1} the set element or key x is no value: quote it, or bind it to a local first."])

(defn- refusal-of
  "[message data] of the error in the clauses, which stand at app.clj:7."
  [env & forms]
  (binding [*file* "app.clj"]
    (try (clauses/clauses env (with-meta '(receive) {:line 7}) forms)
         (catch IllegalArgumentException e
           [(ex-message e) (ex-data e)]))))

(deftest each-error-is-a-sentence-with-its-place-and-remedy
  (doseq [[forms sentence] (partition 2 flaws)]
    (is (= (str "receive at app.clj:7: " sentence) (first (apply refusal-of {} forms))))))

(deftest what-is-nearly-a-marker-is-no-pattern
  (is (= "receive at app.clj:7: (aftr 3 1) is no pattern. Is (after ..) meant?" (first (refusal-of {} '[:a] 1 '(aftr 3 1)))))
  (is (= "receive at app.clj:7: (form ch v v) is no pattern. Is (from ..) meant?" (first (refusal-of {} '(form ch v v) '(after 1 2))))))

(deftest a-receive-without-a-clause-would-wait-for-ever
  (is (str/starts-with? (first (refusal-of {})) "receive at app.clj:7: there is no clause, and it would wait for ever: write a pattern")))

(deftest an-error-carries-data
  (is (= '{:magnetar/reason :magnetar/bad-clause, :macro "receive", :file "app.clj", :line 7, :clause [:a x]}
         (second (refusal-of {} '[:a x]))))
  (is (= '{:clause [:a String], :pattern String}
         (select-keys (second (refusal-of {} '[:a String] 1)) [:clause :pattern]))))

(deftest an-error-is-the-message-that-the-compiler-shows
  (let [error (try (eval '(magnetar.match/match 1 [:a String])) (catch Exception e e))]
    (is (= :macro-syntax-check (:clojure.error/phase (ex-data error))))
    (is (str/includes? (ex-message (ex-cause error)) "the clause [:a String] has no body"))))

;; --- what it costs

(defn- allocated []
  (.getThreadAllocatedBytes ^com.sun.management.ThreadMXBean (java.lang.management.ManagementFactory/getThreadMXBean)
                            (.threadId (Thread/currentThread))))

(defn- bytes-per-match [^Matcher matcher message]
  (let [rounds 20000
        round #(dotimes [_ rounds] (.match matcher message))
        _ (round)
        before (long (allocated))]
    (round)
    (quot (- (long (allocated)) before) rounds)))

(deftest matching-allocates-only-what-the-pattern-binds
  (let [{:keys [matcher]} (clauses/clauses {} '(receive) '[{:k {:j 1000}} 1
                                                           [:a x & _] 2
                                                           ([:b x] :when (nil? x)) 3
                                                           (:or [:c x] [:d x]) 4
                                                           [:f _ 'g "h" nil 2.5 100N] 5
                                                           [:x x y] 6])
        matcher (eval matcher)]
    (is (= 0 (bytes-per-match matcher {:k {:j 1}})))
    (is (= 0 (bytes-per-match matcher [:b 7])))
    (is (= 0 (bytes-per-match matcher [:f 1 'g "h" nil 2.5 100N])))
    (is (= 0 (bytes-per-match matcher [:f 1 'g "h" nil 2.6 100N])))
    (is (>= 32 (long (bytes-per-match matcher [:x 1 2]))))))

;; --- size

(defn- mixed-clause [i]
  (case (int (mod i 5))
    0 [[i 'x '& 'r] '(recur (inc n) r)]
    1 [{:kind i, :value 'x, :more {:k 'y}} '(recur (inc n) [x y])]
    2 [(list [i 'x] :when '(> x n)) '(recur (inc n) x)]
    3 [(list [i 'x 'x] :guard 'vector?) '(recur (inc n) x)]
    4 [(list [i 'x '& 'r] :seq) '(recur (inc n) r)]))

(defn- mixed-loop [n]
  `(fn [~'message]
     (loop [~'n 0, ~'message ~'message]
       (taking ~'message ~@(mapcat mixed-clause (range n)) (~'after 0 [~'n ~'message])))))

(defn- nodes [form]
  (count (tree-seq coll? seq (walk/macroexpand-all form))))

(deftest twenty-mixed-clauses-with-recur-compile-and-grow-linearly
  (binding [*ns* (the-ns 'magnetar.match-clauses-test)]
    (let [start (System/nanoTime)
          f (eval (mixed-loop 20))
          ms (quot (- (System/nanoTime) start) 1000000)]
      (println "  20 mixed clauses with recur compiled in" ms "ms")
      (is (= [1 7] (f [3 7 7])))
      (is (= [2 5] (f [0 :x 3 5 5])))
      (is (= [1 [3 9]] (f {:kind 16, :value 3, :more {:k 9}})))
      (is (= [2 2] (f [15 :x 7 2]))))
    (let [ten (nodes (mixed-loop 10))
          twenty (nodes (mixed-loop 20))
          eighty (nodes (mixed-loop 80))]
      (is (> 1.1 (/ (double (- eighty twenty)) (* 6.0 (- twenty ten))))))))
