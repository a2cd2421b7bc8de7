(ns magnetar.hooks-test
  "The hooks for clj-kondo, run without it: what they give is plain Clojure that binds what the macros bind."
  {:wakes false}
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is testing]]
   [magnetar.impl.match.pattern :as pattern]))

(set! *warn-on-reflection* true)

(def ^:private home (System/getProperty "magnetar.home"))

(defn- exported [path]
  (io/file home "core/resources/clj-kondo.exports/magnetar/magnetar" path))

(load-file (str (exported "magnetar/hooks.clj_kondo")))

(def ^:private config
  (delay (:macroexpand (:hooks (edn/read-string (slurp (exported "config.edn")))))))

(defn- hook [f & arguments]
  (apply @(ns-resolve 'magnetar.hooks f) arguments))

(defn- symbols-called [form]
  (set (keep #(when (and (seq? %) (symbol? (first %))) (name (first %))) (tree-seq coll? seq form))))

(defn- let-bound [form]
  (set (for [part (tree-seq coll? seq form)
             :when (and (seq? part) (= `let (first part)))
             [sym _] (partition 2 (second part))
             :when (not= '_ sym)]
         sym)))

(defn- value-of
  "The form compiled, with the symbols as arguments."
  [arguments form]
  (eval `(fn [~@arguments] ~form)))

(def ^:private everything
  '([:a x & rest-of-it] [x rest-of-it]
    {:k {:j y}, "s" z}  [y z]
    ([tag n] :when (> n 2)) (recur n)
    (v :guard [int? pos?]) (recur v)
    (:or [:p w] [:q w]) w
    ([h] :seq)  h
    ((d :<< inc) :as e) [d e]
    ({:o o} :only [:o]) o
    (bits [[:len 16] [body :binary :len]]) [len body]
    #{1 2} :set
    [_ _ignored 'quoted nil 5] :nothing
    (from (port) u (recur u))
    (from other {:keys [f]} f)
    (after (* 2 tag) (recur 1))))

(deftest every-pattern-local-stands-in-a-let
  (is (= '#{x rest-of-it y z n v w h d e o len body u}
         (disj (let-bound (hook 'receive-form '{tag 1} everything)) '{:keys [f]}))))

(deftest no-after-or-from-is-left
  (is (not-any? (symbols-called (hook 'receive-form {} everything)) ["after" "from" "bits"])))

(deftest what-a-receive-becomes-compiles-with-recur-in-its-bodies
  (is (fn? (value-of '[tag other port]
                     `(loop [~'q 1]
                        ~(hook 'receive-form '{tag 1} everything))))))

(deftest a-receive-of-nothing-but-after-is-its-body
  (is (= [:done 1] ((value-of [] (hook 'receive-form {} '((after 5 [:done 1]))))))))

(deftest a-pattern-that-looks-like-after-is-a-pattern
  (is (= '#{after} (let-bound (hook 'receive-form {} '((after :guard int?) after))))))

(deftest a-pinned-local-is-read-and-not-bound
  (let [form (hook 'match-form '{tag 1} 'value '([tag x] x :else 5))]
    (is (= '#{x} (let-bound form)))
    (is (some #{'tag} (flatten form)))
    (is (fn? (value-of '[tag value] form)))))

(deftest a-query-is-a-match-of-what-the-rows-are
  (let [form (hook 'match-form '{tag 1} nil '([tag x] x ([k n] :when (< n 3)) k))]
    (is (= '#{x k n} (let-bound form)))
    (is (fn? (value-of '[tag] form)))))

(deftest hooks-find-the-locals-that-the-macros-bind
  (doseq [p (take-nth 2 everything)
          :when (not (and (seq? p) ('#{from after bits} (first p))))]
    (is (= (set (:locals (pattern/analyze {:env '{tag 1}} 'message p)))
           (set (hook 'pattern-locals '{tag 1} p)))
        (pr-str p))))

(deftest an-alt-binds-value-and-port
  (let [form (hook 'alt-form '([c t] ([v port] [v port]) [[out 1]] :written :default 5 :priority true))]
    (is (= '#{[v port]} (let-bound form)))
    (is (not-any? #{:priority} (flatten form)))
    (is (fn? (value-of '[c t out] form)))))

(deftest a-namespace-is-not-resolved
  (is (= {:to 3} ((value-of [] (hook 'namespaces-form '[no.such.namespace {:to (+ 1 2)}]))))))

(deftest bodies-stay-bodies
  (is (= 3 ((value-of [] (hook 'body-form '[1 (+ 1 2)])))))
  (is (= 3 ((value-of [] (hook 'go-loop-form '[n 0] '[(if (< n 3) (recur (inc n)) n)])))))
  (is (= 6 ((value-of '[opts] (hook 'body-of-form '[opts] '[1 6])) {})))
  (is (nil? ((value-of [] (hook 'with-scope-form '[s {:deadline 5}] '[s])))))
  (is (nil? ((value-of [] (hook 'with-scope-form '[s] '[s])))))
  (is (nil? ((value-of '[p] (hook 'with-worker-form '[w p {:timeout 5}] '[w])) :pool)))
  (is (= '(def locale :en) (hook 'defcontext-form 'locale '[:en])))
  (is (= '(f "doc" [x] x) (rest (hook 'defblockingop-form 'f "doc" '[x] '[x])))))

(defn- a-call?
  "Is the macro written as a call of its starred function is? A linter reads it as one, without a hook."
  [vars var-name]
  (= (:arglists (vars var-name)) (:arglists (vars (symbol (str var-name "*"))))))

(deftest each-public-macro-has-its-hook
  (let [api (edn/read-string (slurp (io/file home "api.edn")))
        marks '#{magnetar.actor/after magnetar.actor/from}]
    (doseq [[ns-name vars] api
            [var-name {:keys [kind]}] vars
            :let [macro (symbol (str ns-name) (str var-name))]
            :when (and (= :macro kind) (not (marks macro)) (not (a-call? vars var-name)))]
      (testing (str macro)
        (is (contains? @config macro))))))

(deftest each-hook-exists
  (doseq [[macro hook-name] @config]
    (is (:macro (meta (ns-resolve 'magnetar.hooks (symbol (name hook-name))))) macro)))
