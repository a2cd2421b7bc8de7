(ns magnetar.table-erlang-test
  "The differential test of tables: random programs of operations on each kind of table, here and in a real `erl`, with the same results.

  `bin/magnetar test --with-erl magnetar.table-erlang-test`; JAVA_OPTS=-Dmagnetar.runs=N for more programs. A tuple of Erlang is a vector here, an
  atom a keyword, a binary a string."
  {:limit 400000}
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [clojure.test.check.generators :as gen]
   [magnetar.actor :as actor]
   [magnetar.dev.processes :as processes]
   [magnetar.impl.table.keys :as keys]
   [magnetar.otp.erl :as erl]
   [magnetar.table :as table])
  (:import
   (java.util List)
   (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(def ^:private programs-of-a-kind
  (Long/getLong "magnetar.runs" 60))

;; ---- programs

(def ^:private some-key
  (gen/frequency [[6 (gen/elements [:a :b 1 2 1.0 2.5])]
                  [1 (gen/elements [[:a 1] [:a 1.0] [:b] "a" "ab" -1 {:m 1}])]]))

(def ^:private content
  (gen/frequency [[4 (gen/choose 0 4)] [1 (gen/elements [:a :b 1.0 [:a] "x"])]]))

(def ^:private row
  (gen/frequency [[8 (gen/tuple some-key content)] [1 (gen/tuple some-key content content)] [1 (gen/tuple some-key)]]))

(def ^:private change
  (gen/one-of [(gen/tuple (gen/choose 0 2) (gen/choose -3 3))
               (gen/tuple (gen/elements [1 1 1 2]) (gen/choose -3 3) (gen/choose -2 4) (gen/choose 0 9))]))

(def ^:private queries [:pairs :small :of_a :of_one :nested :twice :long :either])

(def ^:private true-queries [:either :ones :none])

(defn- operation
  "Generates an operation of that name with arguments."
  [named & arguments]
  (apply gen/tuple (gen/return named) arguments))

(def ^:private plain
  [(operation :insert row) (operation :insert row) (operation :insert row)
   (operation :insert_all (gen/vector row 0 4)) (operation :insert_new row) (operation :insert_all_new (gen/vector row 0 3))
   (operation :lookup some-key) (operation :lookup_element some-key (gen/choose 0 2)) (operation :member some-key)
   (operation :delete some-key) (operation :delete_object row) (operation :take some-key)
   (operation :select (gen/elements queries)) (operation :pages (gen/elements queries))
   (operation :select_count (gen/elements true-queries)) (operation :select_delete (gen/elements true-queries))
   (operation :all) (operation :fold) (operation :size)])

(def ^:private of-sets
  [(operation :update_element some-key (gen/choose 0 2) content)
   (operation :update_counter some-key (gen/vector change 0 3))
   (operation :update_counter some-key (gen/vector change 1 2) row)
   ;; select_replace takes no key that is a map.
   (gen/let [k (gen/such-that (complement map?) some-key), before content, after content] [:swap [k before] [k after]])])

(def ^:private in-order
  [(operation :first) (operation :last) (operation :next some-key) (operation :prev some-key)])

(defn- operations [kind]
  (gen/frequency (conj (mapv #(vector 4 %)
                             (cond-> plain
                               (#{:set :ordered_set} kind) (into of-sets)
                               (= :ordered_set kind) (into in-order)))
                       [1 (operation :delete_all)])))

(defn- programs
  "Pairs of a kind and operations; the same each time for a seed."
  [seed]
  (for [kind [:set :ordered_set :bag :duplicate_bag]
        i (range programs-of-a-kind)]
    [kind (gen/generate (gen/vector (operations kind) 5 40) 30 (+ (long seed) (long i)))]))

;; ---- ours

(def ^:private compiled
  {:pairs (table/query [a b] [b a])
   :small (table/query ([k n] :when (and (int? n) (< n 3))) k)
   :of_a (table/query [:a n] n)
   :of_one (table/query [1 n] n)
   :nested (table/query [[:a n] _] n)
   :twice (table/query [x x] x)
   :long (table/query ([_ _ _] :as row) row)
   :either (table/query [:a _] true [_ 1] true)
   :ones (table/query [_ 1] true)
   :none (table/query [_ :nothing] true)})

(defn- pages [t q]
  (loop [[found more] (table/select t q {:limit 2}), all []]
    (if more
      (recur (table/select more) (into all found))
      (into all found))))

(defn- step-to [t f & args]
  (let [k (apply f t args)]
    (if (nil? k) :none [:key k])))

(def ^:private ours
  {:insert table/insert, :insert_all table/insert-all, :insert_new table/insert-new, :insert_all_new table/insert-all-new
   :lookup table/lookup, :lookup_element table/lookup-element, :member table/member?, :delete table/delete, :delete_object table/delete-object
   :delete_all table/delete-all, :take table/take, :update_counter table/update-counter, :swap table/compare-and-swap
   :update_element (fn [t k place v] (table/update-element t k {place v}))
   :all #(vec (table/rows %))
   :fold #(reduce (fn [n row] (+ (long n) (count row))) 0 (table/rows %))
   :size #(:size (table/info %))
   :select #(table/select %1 (compiled %2))
   :pages #(pages %1 (compiled %2))
   :select_count #(table/select-count %1 (compiled %2))
   :select_delete #(table/select-delete %1 (compiled %2))
   :first #(step-to % table/first)
   :last #(step-to % table/last)
   :next #(step-to %1 table/next %2)
   :prev #(step-to %1 table/prev %2)})

(defn- canonical [kind named result]
  (if (and (not= :ordered_set kind) (#{:all :select :pages} named))
    (frequencies result)
    result))

(defn- observe [t [named & arguments]]
  (try
    (apply (ours named) t arguments)
    (catch IllegalArgumentException _ :refused)))

(defn- run-here [[kind operations]]
  (actor/with-process {}
    (let [t (table/create (keyword (str/replace (name kind) "_" "-")))]
      (mapv #(observe t %) operations))))

;; ---- Erlang's

(defn- term
  "A value as Erlang writes it; arguments that are lists there are marked by `lists`."
  [x]
  (cond
    (keyword? x) (str "'" (name x) "'")
    (string? x) (str "<<\"" x "\">>")
    (vector? x) (str "{" (str/join "," (map term x)) "}")
    (map? x) (str "#{" (str/join "," (map (fn [[k v]] (str (term k) " => " (term v))) x)) "}")
    :else (str x)))

(defn- listed [xs]
  (str "[" (str/join "," (map term xs)) "]"))

(defn- operation-term [[named & arguments]]
  (let [arguments (case named
                    (:insert_all :insert_all_new) [(listed (first arguments))]
                    :update_counter (update (mapv term arguments) 1 (constantly (listed (second arguments))))
                    (map term arguments))]
    (str "{" (str/join "," (cons (name named) arguments)) "}")))

(defn- program-term [[kind operations]]
  (str "{" (name kind) ",[" (str/join "," (map operation-term operations)) "]}"))

(defn- output [folder words]
  (let [process (.start (doto (ProcessBuilder. ^List words) (.directory folder) (.redirectErrorStream true)))
        text (future (slurp (.getInputStream process)))]
    (when-not (.waitFor process 120 TimeUnit/SECONDS)
      (.destroyForcibly process))
    @text))

(defn- run-there [programs]
  (let [folder (processes/temporary-folder)
        source (processes/write folder "tables.erl" (slurp (io/file processes/home "core/test/resources/conformance/tables.erl")))
        file (processes/write folder "programs" (str "[" (str/join ",\n" (map program-term programs)) "].\n"))
        text (output folder ["erl" "-noshell" "-eval"
                             (str "{ok, M, B} = compile:file(\"" source "\", [binary, report_errors]), "
                                  "code:load_binary(M, \"tables\", B), tables:main(\"" file "\").")])
        results (mapv #(try (edn/read-string %) (catch RuntimeException _ [:unreadable %])) (str/split-lines text))]
    (when-not (= (count programs) (count results))
      (throw (ex-info (str "erl did not run the programs: " text) {})))
    results))

;; ---- both

(defn- differences
  "[kind operations-so-far here there] of the first difference in each program that has one."
  [programs there]
  (for [[[kind operations :as program] erlang] (map vector programs there)
        :let [here (run-here program)
              differs? (fn [i] (let [named (first (nth operations i))]
                                 (not= (canonical kind named (nth here i)) (canonical kind named (nth erlang i)))))
              i (first (filter differs? (range (count operations))))]
        :when i]
    [kind (subvec operations 0 (inc (long i))) (nth here i) (nth erlang i)]))

(defn- with-erlang [f]
  (cond
    (not (erl/wanted?)) nil
    (erl/available?) (f)
    :else (println "  tables: the lane of Erlang is skipped, there is no `erl` on the PATH")))

(deftest ^{:spec ["C120" "C123" "C124" "C125"]} random-programs-give-what-ets-gives
  (with-erlang
    #(let [programs (programs 20261121)
           there (run-there programs)]
       (is (= [] (vec (take 3 (differences programs there)))))
       (testing "a result that is altered is found"
         (is (seq (differences programs (assoc-in there [0 0] :altered))))))))

(deftest keys-have-the-order-of-erlang
  (with-erlang
    #(let [ks [3 :b [2] "b" 1.5 [1 2] {} :a -1 "" "ab" [:z] {:a 1} {1 :a} {1.0 :a} {2 :a} [] 2 {:b 1} :ab -2.5 [[1]] 100 9007199254740993 9007199254740992.0]
           program [:ordered_set (conj (mapv (fn [k] [:insert [k]]) ks) [:all])]]
       (is (= (mapv vector (sort keys/order ks)) (peek (first (run-there [program]))) (peek (run-here program)))))))

(deftest the-programs-do-something-here
  (let [results (frequencies (map #(if (= :refused %) :refused :done) (mapcat run-here (programs 7))))]
    (is (< 1000 (long (:done results))))
    (is (< 10 (long (:refused results)) (/ (long (:done results)) 2)))))
