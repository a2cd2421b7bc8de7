(ns magnetar.guide-test
  "The examples of the guide give what it says they give."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.dev.guide :as guide]
   [magnetar.dev.repl :as repl]
   [magnetar.impl.hooks :as hooks]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.support :refer [with-hook]])
  (:import
   (java.io File)))

(set! *warn-on-reflection* true)

(def ^:private pages
  "The pages about the core; those about other modules need other libraries."
  ["docs/guide/channels.md" "docs/guide/data-parallelism.md" "docs/guide/scopes.md" "docs/guide/patterns.md" "docs/guide/binaries.md" "docs/guide/term-format.md"
   "docs/guide/actors.md" "docs/guide/gen-server.md" "docs/guide/gen-statem.md" "docs/guide/gen-event.md" "docs/guide/hot-code.md"
   "docs/guide/registry-and-tasks.md" "docs/guide/simulator.md" "docs/guide/state.md"
   "docs/guide/applications.md" "docs/guide/timers.md" "docs/guide/pools.md" "docs/guide/sockets.md" "docs/guide/drivers.md" "docs/guide/services.md" "docs/guide/hangs.md" "docs/guide/debugging.md"
   "docs/guide/logging.md" "docs/guide/telemetry.md" "docs/guide/prompt.md"])

(def ^:private of-the-prompt
  "The pages whose examples are typed at the prompt, in a process and with its names."
  #{"docs/guide/actors.md" "docs/guide/registry-and-tasks.md" "docs/guide/prompt.md"})

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

(def ^:private reports (atom []))

(defn- reported-by
  "The events that the examples of the page report while the page has no hook of its own: a reader's log shows those."
  [page]
  (reset! reports [])
  (with-hook [:report #(when (= 1 (count (hooks/of :report))) (swap! reports conj (:event %)))]
    (scenarios/leaving-nobody
      (fn []
        (is (pos? (long (run-page page))))
        (set @reports)))))

(def ^:private reported
  "What the examples of a page report, where they report anything: children that are killed."
  {"docs/guide/simulator.md" #{:child-terminated :too-many-restarts}})

(deftest ^{:limit 180000} each-example-of-the-guide-gives-what-it-says
  (doseq [page pages]
    (testing (str page)
      (is (= (reported page #{}) (reported-by page))))))

(def ^:private home (System/getProperty "magnetar.home"))

(defn- pages-below [folder]
  (for [^File file (.listFiles (io/file home "docs" folder))
        :when (str/ends-with? (.getName file) ".md")]
    (str folder "/" (.getName file))))

(deftest each-page-is-linked-from-the-index-of-the-documentation
  (let [linked (set (map second (re-seq #"\]\(([^)#]+)" (slurp (io/file home "docs/README.md")))))]
    (is (= [] (remove linked (mapcat pages-below ["guide" "parity" "reference"]))))
    (is (= [] (remove #(.exists (io/file home "docs" %)) linked)))))

(def ^:private run-elsewhere
  "With other libraries, by magnetar.integrations-test, magnetar.context-propagation-test, magnetar.otel-test, magnetar.http-test,
  magnetar.http.client-test, magnetar.erlang.page-test, magnetar.erlang.elixir-page-test, magnetar.cluster.page-test, magnetar.cluster.security-page-test
  and magnetar.cluster.kubernetes-page-test; in JVMs of their own, by magnetar.dev.startup-page-test and magnetar.kernel.module-test; or nothing but what a project
  says about its dependencies, or what has changed."
  #{"guide/startup.md" "guide/java.md" "guide/with-component.md" "guide/with-integrant.md" "guide/with-mount.md" "guide/core-async-compat.md"
    "guide/thread-locals.md" "guide/opentelemetry.md" "guide/http.md" "guide/http-client.md" "guide/cluster.md" "guide/cluster-security.md" "guide/kubernetes.md" "guide/erlang.md" "guide/elixir.md"
    "guide/upgrading.md"})

(deftest each-page-of-the-guide-is-run-by-a-test
  (is (= [] (remove (into run-elsewhere (map #(subs % 5)) pages) (pages-below "guide")))))

(deftest each-link-of-a-page-leads-to-a-file
  (is (= []
         (for [page (cons "glossary.md" (mapcat pages-below ["guide" "parity" "decisions"]))
               :let [file (io/file home "docs" page)]
               [_ target] (re-seq #"\]\(([^)#:]+)(?:#[^)]*)?\)" (str/replace (slurp file) #"(?s)```.*?```|`[^`]*`" ""))
               :when (not (.exists (io/file (.getParentFile file) target)))]
           [page target]))))
