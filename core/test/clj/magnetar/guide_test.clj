(ns magnetar.guide-test
  "The examples of the guide give what it says they give."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.dev.repl :as repl]
   [magnetar.inspect :as inspect]))

(set! *warn-on-reflection* true)

(def ^:private pages
  "The pages about the core; those about other modules need other libraries."
  ["docs/guide/channels.md" "docs/guide/data-parallelism.md" "docs/guide/scopes.md" "docs/guide/patterns.md" "docs/guide/binaries.md"
   "docs/guide/actors.md" "docs/guide/gen-server.md" "docs/guide/hot-code.md" "docs/guide/registry-and-tasks.md" "docs/guide/simulator.md"
   "docs/guide/state.md"])

(def ^:private of-the-prompt
  "The pages whose examples are typed at the prompt, in a process and with its names."
  #{"docs/guide/actors.md" "docs/guide/registry-and-tasks.md"})

(defn- examples
  "The examples in a text: [code expected] for each arrow, in order; expected is nil for code that is only run."
  [text]
  (for [[_ block] (re-seq #"(?s)```clojure\n(.*?)```" text)
        part (str/split (str block "\n") #"(?<=;=>[^\n]{1,500})\n")
        :let [[code expected] (str/split part #";=> ?")]
        :when (not (str/blank? code))]
    [(str/trim code) expected]))

(defn- forms [code]
  (read-string (str "[" code "\n]")))

(defn- check [[code expected]]
  (let [value (last (mapv eval (forms code)))]
    (when expected
      (is (= (read-string expected) value) code))))

(defn- as-at-the-prompt [f]
  (repl/load-aliases)
  (actor/with-process {} (f)))

(defn- run-page
  "Runs the examples of a page, one after the other, in a namespace of their own; returns how many have a result."
  [page]
  (let [examples (examples (slurp (io/file (System/getProperty "magnetar.home") page)))
        scratch (create-ns (gensym "magnetar.guide-test.page"))]
    (binding [*ns* scratch]
      (refer-clojure)
      (if (of-the-prompt page)
        (as-at-the-prompt #(run! check examples))
        (run! check examples)))
    (remove-ns (ns-name scratch))
    (count (keep second examples))))

(deftest examples-are-found-with-what-they-give
  (is (= [["(def x 1)\n(inc x)" "2"] ["x" "1"] ["(f)" nil]]
         (examples "text\n```clojure\n(def x 1)\n(inc x) ;=> 2\nx ;=> 1\n(f)\n```\n"))))

(deftest each-example-of-the-guide-gives-what-it-says
  (try
    (doseq [page pages]
      (testing (str page)
        (is (pos? (long (run-page page))))))
    (finally (inspect/set-failure-hook nil))))
