(ns magnetar.errors-test
  "Each example of the page about errors raises the id that it stands under, and what stands there instead works; `explain` prints the
  sections, and `pst` failures."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.dev.guide :as guide]
   [magnetar.gen-server :as gs]
   [magnetar.impl.explain :as explain]
   [magnetar.inspect :as inspect]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.report :as report]
   [magnetar.scope :as scope]
   [magnetar.support :refer [collecting with-failures]])
  (:import
   (java.util.regex Pattern)))

(set! *warn-on-reflection* true)

(def ^:private aliases
  '[[magnetar.async :as a] [magnetar.actor :as actor] [magnetar.application :as app] [magnetar.bits :as bits] [magnetar.channel :as channel]
    [magnetar.scope.context :as context] [magnetar.scope.thread-locals :as thread-locals] [magnetar.etf :as etf] [magnetar.fold :as fold] [magnetar.global :as global] [magnetar.gen-event :as ge] [magnetar.gen-server :as gs]
    [magnetar.hot :as hot] [magnetar.inspect :as inspect] [magnetar.match :as match] [magnetar.net :as net] [magnetar.pool :as pool] [magnetar.registry :as registry]
    [magnetar.report :as report] [magnetar.resilience :as r] [magnetar.scope :as scope] [magnetar.table.snapshot :as snapshot]
    [magnetar.gen-statem :as statem] [magnetar.supervisor :as sup] [magnetar.sys :as sys] [magnetar.table :as table] [magnetar.task :as task]
    [magnetar.task.supervisor :as tasks] [magnetar.timer :as timer] [magnetar.trace :as trace] [magnetar.test :as mt]
    [magnetar.overload :as overload] [magnetar.proc-lib :as proc-lib]])

(def ^:private without-example
  "Why the section of an id has no example."
  {:magnetar.test/broken "a defect of the simulator"
   :magnetar.test/closed "a JVM without --add-opens"
   :magnetar.test/interrupted "another thread that interrupts the run"
   :magnetar.test/not-ended "30 seconds of real time"
   :magnetar/bad-response "the artifact magnetar-http, and a client"
   :magnetar/body-too-large "the artifact magnetar-http, and a client"
   :magnetar/connection-lost "a peer that resets the connection"
   :magnetar/already-running "a whole program, whose end ends the JVM"
   :magnetar/java-too-old "an older JVM"
   :magnetar/kernel-not-compiled "a checkout that is not compiled"
   :magnetar/no-collection "a JVM with -XX:+DisableExplicitGC"
   :magnetar/no-such-accessor "a library that Magnetar does not depend on"
   :magnetar/no-flight-recorder "a JVM without the module jdk.jfr"
   :magnetar/not-a-peer "the artifact magnetar-http"
   :magnetar/not-a-server "the artifact magnetar-http"
   :magnetar/not-a-websocket "the artifact magnetar-http"
   :magnetar/task-not-started "a supervisor that ends at that moment"
   :magnetar/upgrade-failed "a server in a file, in two versions"
   :magnetar/upgrades-itself "it is thrown in a server, and its caller gets :magnetar/call-failed"
   :magnetar/watch-failed "the limit of watches of the operating system"})

(defn- without-comment [code]
  (str/join "\n" (remove #(str/starts-with? % "; ") (str/split-lines code))))

(defn- message-parts
  "What the message in the comment of an example consists of, without what differs from run to run."
  [code]
  (let [lines (filter #(str/starts-with? % "; ") (str/split-lines code))]
    (remove str/blank? (str/split (str/join " " (map #(subs % 2) lines)) #" ?\.\.(?!\.) ?"))))

(defn- example
  "The example of a section, its message in parts, and what works instead."
  [text]
  (let [[[_ wrong] :as blocks] (re-seq #"(?s)```clojure\n(.*?)```" text)
        [_ instead] (re-find #"(?s)\nInstead:\n\n```clojure\n(.*?)```" text)]
    (when wrong
      {:wrong (without-comment wrong) :message (message-parts wrong) :instead instead :blocks (count blocks)})))

(defn examples
  "The examples of the page, as [id example]."
  []
  (for [[id text] (explain/sections)
        :let [example (example text)]
        :when example]
    [id example]))

(defn- errors-of [error]
  (for [e (explain/causes error)]
    {:id (:magnetar/reason (explain/data-of e)) :message (str/replace (str (ex-message e)) #"\s+" " ")}))

(defn- in-namespace
  "Calls f in a new namespace with the aliases of the page."
  [f]
  (let [page (create-ns (gensym "magnetar.errors-test.page"))]
    (binding [*ns* page]
      (try
        (refer-clojure)
        (doseq [[ns _ short] aliases] (alias short ns))
        (f)
        (finally (remove-ns (ns-name page)))))))

(defn- run-in-process
  "Evaluates the code in a process; returns what it throws, or nil. It is caught there: the servers that it has started end normally."
  [code]
  (try
    (in-namespace #(actor/with-process {} (try (run! eval (guide/forms code)) (catch Throwable e e))))
    (catch Throwable e e)))

(defn raised
  "The errors that the code throws or has reported, in a process of its own, with their causes: maps of :id and :message."
  [code]
  (with-failures [failures]
    (let [thrown (errors-of (run-in-process code))]
      (into thrown (mapcat (comp errors-of :error)) @failures))))

(defn- quietly
  "Calls f with the reports of servers captured; returns when all processes that f has started have ended."
  [f]
  (collecting (atom []) #(scenarios/leaving-nobody f)))

(defn- message?
  "Has the text these parts, in this order?"
  [parts text]
  (re-find (re-pattern (str/join ".*" (map #(Pattern/quote %) parts))) text))

(deftest each-example-raises-the-id-it-stands-under-with-its-message
  (run! require (map first aliases))
  (quietly
    (fn []
      (doseq [[id {:keys [wrong message]}] (examples)]
        (testing wrong
          (let [of-id (filter #(= id (:id %)) (raised wrong))]
            (is (seq of-id) id)
            (is (some #(message? message (:message %)) of-id) (pr-str id (map :message of-id)))))))))

(deftest what-stands-there-instead-works
  (run! require (map first aliases))
  (quietly
    (fn []
      (doseq [[id {:keys [instead]}] (examples)
              :when instead]
        (testing instead
          (is (= [] (raised instead)) id))))))

(deftest each-section-has-an-example-or-a-reason-why-not
  (let [with-example (set (map first (examples)))]
    (is (= [] (remove (into with-example (keys without-example)) (keys (explain/sections)))))
    (is (= [] (filter with-example (keys without-example))))
    (is (= [] (remove (explain/sections) (keys without-example)))))
  (is (= [] (for [[id {:keys [instead blocks]}] (examples)
                  :when (not= blocks (if instead 2 1))]
              id))))

(defn- named
  "The names of functions in the text whose namespace is one of the aliases, as [alias name]."
  [text]
  (let [known (into {} (map (fn [[ns _ alias]] [(str alias) ns])) aliases)]
    (for [[_ alias function] (re-seq #"(?<![:.\w/-])([a-z-]+)/([a-z][a-z0-9!?*>-]*)" text)
          :when (known alias)]
      [(known alias) (symbol function)])))

(deftest each-function-that-the-page-names-exists
  (run! require (map first aliases))
  (is (= [] (for [[id text] (explain/sections)
                  [ns function] (named text)
                  :when (not (ns-resolve ns function))]
              [id ns function]))))

;; ---- explain

(deftest explain-prints-the-section-of-an-id-or-of-a-cause
  (let [section (with-out-str (report/explain :magnetar/nil-value))
        thrown (ex-info "outer" {} (ex-info "inner" {:magnetar/reason :magnetar/nil-value}))]
    (is (str/includes? section "Nil cannot be put on a channel"))
    (is (str/starts-with? section ":magnetar/nil-value"))
    (is (not (str/includes? section "## ")))
    (is (= section (with-out-str (report/explain thrown))))
    (is (= section (binding [*e thrown] (with-out-str (is (nil? (report/explain)))))))))

(deftest explain-says-so-if-there-is-no-id
  (is (str/includes? (with-out-str (report/explain (Exception. "boom"))) "no id of Magnetar: java.lang.Exception"))
  (is (str/includes? (with-out-str (report/explain :magnetar/nil-valeu)) "Is :magnetar/nil-value meant?"))
  (is (str/includes? (binding [*e nil] (with-out-str (report/explain))) "*e is nil"))
  (is (= :magnetar/not-an-error (explain/id-of (try (report/explain 42) (catch IllegalArgumentException e e))))))

;; ---- pst

(defn- shown [error & [options]]
  (str/split-lines (with-out-str (is (nil? (report/pst error options))))))

(defn- divide [x]
  (/ 1 x))

(deftest pst-shows-the-frames-of-the-program-and-what-started-the-fork
  (let [lines (shown (try (scope/with-scope [s] (scope/fork s #(divide 0))) (catch Exception e e)))]
    (is (some #(re-find #"^ +at magnetar\.errors-test/divide \(errors_test\.clj:\d+\)" %) lines))
    (is (some #(re-find #"^Caused by: java\.lang\.ArithmeticException: Divide by zero" %) lines))
    (is (some #(re-find #"started by the fork .*errors_test\.clj:\d+" %) lines))
    (is (not-any? #(re-find #"at (clojure|java|magnetar\.scope|magnetar\.impl)[./]" %) lines))))

(deftest pst-stays-within-its-bounds
  (let [a (Exception. "a")
        b (Exception. "b" a)
        big (ex-info (apply str (repeat 1000000 "x")) {:numbers (range) :text (apply str (repeat 1000000 "y"))})
        mute (proxy [Exception] [] (getMessage [] (throw (IllegalStateException. "no"))))
        deep (reduce (fn [cause i] (ex-info (str "level " i) {:i i} cause)) nil (range 1000))]
    (.initCause a b)
    (doseq [error [a big mute deep (Exception.)]
            :let [lines (shown error)]]
      (is (<= 1 (count lines) 40))
      (is (every? #(< (count %) 700) lines)))
    (is (= 2 (count (filter #(re-find #"Exception: [ab]$" %) (shown a)))))
    (is (str/includes? (first (shown mute)) "getMessage threw java.lang.IllegalStateException"))
    (is (str/includes? (first (shown (Exception.))) "no message"))
    (is (= 5 (count (shown deep {:lines 5}))))
    (is (some #(re-find #"^\(and \d+ more lines\)" %) (shown deep {:lines 5})))
    (is (= ["java.lang.Exception: no message"] (shown (Exception.) {:lines 1})))))

(deftest pst-shows-the-last-of-very-many-causes
  (let [deep (reduce (fn [cause i] (ex-info (str "level " i) {} cause)) nil (range 5000))]
    (is (some #(str/ends-with? % "ExceptionInfo: level 0") (shown deep)))
    (is (some #(re-find #"^\(and 4992 more causes\)" %) (shown deep)))
    (is (= 3 (count (explain/causes (ex-info "a" {} (ex-info "b" {} (ex-info "c" {})))))))))

(defn- priced [order _ n]
  [:reply (try (divide (count order)) (catch ArithmeticException e (throw (ex-info "no price" {:order order} e)))) n])

(deftest pst-shows-the-frames-of-a-server-that-failed-in-a-call
  (let [failed (atom nil)]
    (quietly
      (fn []
        (actor/with-process {}
          (let [[_ server] (gs/start {:init (fn [n] [:ok n]) :handle-call priced} 0)]
            (reset! failed (try (gs/call server []) (catch Exception e e)))))))
    (let [lines (shown @failed)
          server (drop-while #(not= "  the other process failed:" %) lines)]
      (is (re-find #"at magnetar\.errors-test/priced/fn \(errors_test\.clj:\d+\)" (str (second server))))
      (is (some #(re-find #"^  caused by: .*Divide by zero" %) server))
      (is (= "(explain :magnetar/call-failed) tells more." (last lines)))
      (is (>= 40 (count lines))))))

(defn- wrapped [f depth]
  (if (zero? (long depth))
    (f)
    (try (wrapped f (dec (long depth)))
      (catch Exception e (throw (ex-info (str "wrapped " depth) {:depth depth} e))))))

(deftest pst-keeps-the-last-cause-and-what-started-it-if-lines-are-left-out
  (let [error (try (wrapped #(scope/with-scope [s] (scope/fork s (fn [] (divide 0)))) 20) (catch Exception e e))]
    (doseq [most [12 40]
            :let [lines (shown error {:lines most})]]
      (is (<= (count lines) (long most)))
      (is (str/ends-with? (first lines) "wrapped 20"))
      (is (some #(re-find #"^Caused by: java\.lang\.ArithmeticException: Divide by zero" %) lines))
      (is (some #(re-find #"at magnetar\.errors-test/divide" %) lines))
      (is (some #(re-find #"started by the fork .*errors_test\.clj:\d+" %) lines))
      (is (= "(explain :magnetar/fork-failed) tells more." (last lines))))))

(deftest an-error-that-throws-when-asked-is-shown-and-explained
  (let [no-data (proxy [clojure.lang.ExceptionInfo] ["no data" {}] (getData [] (throw (IllegalStateException. "no"))))
        no-frames (proxy [Exception] ["no frames"] (getStackTrace [] (throw (IllegalStateException. "no"))))
        no-cause (proxy [Exception] ["no cause"] (getCause [] (throw (IllegalStateException. "no"))))
        no-forms (Exception. "no forms")]
    (.addSuppressed no-forms (ex-info "forms" {:magnetar.trace/forms 42}))
    (doseq [[^String text error] {"no data" no-data, "no frames" no-frames, "no cause" no-cause, "no forms" no-forms}]
      (is (str/includes? (str/join "\n" (shown error)) text))
      (is (str/includes? (with-out-str (report/explain error)) "no id of Magnetar")))))

(deftest pst-hides-what-the-program-hides
  (try
    (inspect/redact-with (fn [x] (if (:card x) (assoc x :card "hidden") x)))
    (let [text (str/join "\n" (shown (ex-info "declined" {:card "4711"})))]
      (is (str/includes? text "hidden"))
      (is (not (str/includes? text "4711"))))
    (finally (inspect/redact-with nil))))

(deftest pst-prints-the-forms-that-a-trace-attached
  (let [error (Exception. "boom")]
    (.addSuppressed error (ex-info "forms" {:magnetar.trace/forms ['(/ 1 x) '(charge order)]}))
    (is (some #(= "  in the form: (/ 1 x)" %) (shown error)))))
