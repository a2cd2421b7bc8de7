(ns magnetar.guide-test
  "The examples of the guide give what it says they give."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.dev.guide :as guide]
   [magnetar.dev.repl :as repl]
   [magnetar.inspect :as inspect]))

(set! *warn-on-reflection* true)

(def ^:private pages
  "The pages about the core; those about other modules need other libraries."
  ["docs/guide/channels.md" "docs/guide/data-parallelism.md" "docs/guide/scopes.md" "docs/guide/patterns.md" "docs/guide/binaries.md"
   "docs/guide/actors.md" "docs/guide/gen-server.md" "docs/guide/gen-statem.md" "docs/guide/gen-event.md" "docs/guide/hot-code.md"
   "docs/guide/registry-and-tasks.md" "docs/guide/simulator.md" "docs/guide/state.md"
   "docs/guide/applications.md" "docs/guide/timers.md" "docs/guide/pools.md"])

(def ^:private of-the-prompt
  "The pages whose examples are typed at the prompt, in a process and with its names."
  #{"docs/guide/actors.md" "docs/guide/registry-and-tasks.md"})

(defn- as-at-the-prompt [f]
  (repl/load-aliases)
  (actor/with-process {} (f)))

(defn- run-page [page]
  (if (of-the-prompt page)
    (guide/run-page page as-at-the-prompt)
    (guide/run-page page)))

(deftest examples-are-found-with-what-they-give
  (is (= [["(def x 1)\n(inc x)" "2"] ["x" "1"] ["(f)" nil]]
         (guide/examples "text\n```clojure\n(def x 1)\n(inc x) ;=> 2\nx ;=> 1\n(f)\n```\n"))))

(deftest each-example-of-the-guide-gives-what-it-says
  (try
    (doseq [page pages]
      (testing (str page)
        (is (pos? (long (run-page page))))))
    (finally (inspect/set-failure-hook nil))))
