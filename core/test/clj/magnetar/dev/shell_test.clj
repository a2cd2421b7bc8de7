(ns magnetar.dev.shell-test
  "The prompt is a process; a program waits at its end for what is alive."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.processes :refer [magnetar temporary-folder write]]
   [magnetar.dev.repl :as repl]
   [magnetar.dev.shell :as shell]
   [magnetar.support :refer [with-failures]])
  (:import
   (clojure.lang LineNumberingPushbackReader)
   (java.io PrintWriter StringReader StringWriter)
   (java.net InetAddress ServerSocket)
   (org.jline.reader LineReader)))

(set! *warn-on-reflection* true)

(defn- answers
  "What a prompt prints for the lines, in a namespace of its own: a vector of lines."
  [& lines]
  (let [out (StringWriter.)
        scratch (create-ns (gensym "shell-test.scratch"))]
    (try
      (with-failures [_]
        (binding [*ns* scratch, *out* out, *err* out
                  *in* (LineNumberingPushbackReader. (StringReader. (str/join "\n" lines)))]
          (refer-clojure)
          (shell/repl {:init repl/load-aliases, :read clojure.main/repl-read, :prompt (constantly nil)})))
      (str/split-lines (str out))
      (finally (remove-ns (ns-name scratch))))))

(deftest at-the-prompt-one-is-a-process
  (is (= [":x" "[:got :x]" ":b" "[:b]" "true"]
         (answers "(! (self) :x)"
                  "(receive m [:got m])"
                  "(! (self) :b)"
                  "(flush)"
                  "(alive? (self))")))
  (is (re-matches #"#magnetar/pid \"0\.\d+\.\d+ shell\"" (first (answers "(self)")))))

(deftest the-same-process-answers-line-after-line
  (is (= ["true"] (take-last 1 (answers "(def me (self))" "(= me (self))")))))

(deftest ^{:spec ["C84"]} when-a-linked-child-crashes-the-prompt-says-so-and-goes-on-in-a-new-process
  (is (= ["** exited: :boom" "false" ":again" ":again"]
         (remove #(re-find #"^#'|#magnetar" %)
                 (answers "(def me (self))"
                          "(def child (spawn-link (fn [] (receive :go (exit :boom)))))"
                          "(do (! child :go) @(promise))"
                          "(= me (self))"
                          "(! (self) :again)"
                          "(receive x x)")))))

(deftest what-was-typed-before-the-prompt-knew-is-done-by-the-new-process
  (is (= ["** exited: :boom" "3"]
         (remove #(re-find #"^#'|#magnetar|^nil$" %) ; the loop ends, or is interrupted
                 (answers "(def me (self))"
                          "(do (spawn (fn [] (exit me :boom))) (join (spawn (fn []))) (while (.isAlive me) (Thread/yield)))"
                          "(+ 1 2)")))))

(deftest an-exit-that-is-typed-ends-the-process-and-not-the-prompt
  (is (= ["** exited: :bye" "** exited: :normal" "42"]
         (answers "(exit :bye)" "(exit :normal)" "42"))))

(deftest namespace-and-last-values-outlive-the-process
  (let [lines (answers "(in-ns 'shell-test.elsewhere)"
                       "(clojure.core/refer-clojure)"
                       "(def a 41)"
                       "(inc a)"
                       "(magnetar.actor/exit :bye)"
                       "*1"
                       "a")]
    (remove-ns 'shell-test.elsewhere)
    (is (= ["42" "** exited: :bye" "42" "41"] (take-last 4 lines)))))

(deftest a-refusal-is-headed-by-the-class-that-it-is
  (let [[heading sentence] (answers "(send-after -5 (self) :tick)")]
    (is (re-find #"^Execution error \(MisuseException\) at " heading))
    (is (re-find #"`send-after`" sentence))))

(deftest a-sentence-of-the-library-stands-before-its-cause
  (let [lines (answers "(defn divide [] (/ 1 0))"
                       "(magnetar.scope/with-scope [s] (magnetar.scope/fork s divide))")]
    (is (re-find #"^Execution error \(ExceptionInfo\) at shell-test.scratch" (nth lines 1)))
    (is (re-matches #"The fork .* failed: Divide by zero" (nth lines 2)))
    (is (re-find #"^Caused by: Divide by zero \(ArithmeticException\) at shell-test.scratch\d+/divide " (nth lines 3)))))

(deftest a-file-that-does-not-load-is-named-by-its-upgrade
  (let [file (write (temporary-folder) "bad_books.clj" "(ns bad-books)\n(defn f [] (undefined 1))\n")
        [_ heading sentence cause & more] (answers "(require 'magnetar.hot)" (str "(magnetar.hot/load " (pr-str (str file)) ")"))]
    (is (re-find #"^Execution error \(ExceptionInfo\) at shell-test.scratch" heading))
    (is (re-find #"^The namespace bad-books does not load at .*bad_books.clj:2: Unable to resolve symbol: undefined in this context\. All namespaces" sentence))
    (is (re-find #"^Caused by: Unable to resolve symbol: undefined in this context \(RuntimeException\)" cause))
    (is (nil? more))))

(deftest what-an-interrupt-ends-is-called-interrupted
  (is (= ["Interrupted." "Interrupted."]
         (answers "(do (.interrupt (Thread/currentThread)) (receive :x 1))"
                  "(do (.interrupt (Thread/currentThread)) (Thread/sleep 10000))"))))

(deftest continue-at-the-prompt-is-refused-in-a-sentence
  (is (= [(str "`continue` drops the stack of its process, which is that of the prompt here: call it in a process of its own, as in (spawn #(continue f)).")
          "3"]
         (answers "(continue + 1)" "(+ 1 2)"))))

(deftest pst-of-a-fork-that-failed-shows-the-frames-of-the-user
  (doseq [form ["(magnetar.scope/with-scope [s] (magnetar.scope/fork s divide))"
                "(magnetar.scope/with-scope [s] (magnetar.scope/join (magnetar.scope/fork s divide)))"]]
    (let [lines (answers "(defn divide [] (/ 1 0))" form "(magnetar.report/pst *e)")
          own (filter #(re-find #"^ +at shell-test.scratch\d+/divide" %) lines)]
      (is (seq own) (str/join "\n" lines)))))

(deftest an-error-is-printed-as-ever-and-the-process-lives
  (is (= ["Divide by zero" "true" "Divide by zero"]
         (->> (answers "(def me (self))" "(/ 1 0)" "(= me (self))" "(ex-message *e)")
              (remove #(re-find #"^#'|Execution error" %))
              (map #(str/replace % "\"" ""))))))

(deftest who-traps-exits-at-the-prompt-gets-a-message
  (is (= ["[:EXIT :boom]"]
         (take-last 1 (answers "(flag :trap-exit true)"
                               "(def child (spawn-link (fn [] (exit :boom))))"
                               "(receive [:EXIT pid why] [:EXIT why])")))))

;; ---- the launcher

(deftest the-prompt-of-the-launcher-is-a-process
  (let [{:keys [exit out]} (magnetar {:input "(! (self) :x)\n(receive m [:got m])\n(exit :bye)\n(+ 40 2)\n"} "repl")]
    (is (= 0 exit))
    (is (= [":x" "[:got :x]" "** exited: :bye" "42"]
           (mapv #(str/replace % #"^(user=> )+" "") (take 4 (str/split-lines out)))))))

(defn- run-text [text & arguments]
  (:out (apply magnetar "run" (concat arguments [(write (temporary-folder) "program.clj" text)]))))

(def ^:private program-with-a-name
  "(require '[magnetar.actor :as actor])
   (def over (promise))
   (actor/spawn-opt (fn [] @over (Thread/sleep 300) (println \"worker done\") (flush)) {:name :worker})
   (println \"main done\")
   (deliver over true)")

(deftest ^{:spec ["C84"]} a-program-waits-at-its-end-for-processes-with-names-and-for-scopes
  (is (= "main done\nworker done" (run-text program-with-a-name)))
  (testing "a scope in a process without a name"
    (is (= "main done\nscope done"
           (run-text "(require '[magnetar.actor :as actor] '[magnetar.scope :as scope])
                      (def open (promise))
                      (def over (promise))
                      (actor/spawn (fn [] (scope/with-scope [s] (deliver open 1) @over (Thread/sleep 300) (println \"scope done\") (flush))))
                      @open
                      (println \"main done\")
                      (deliver over true)")))))

(deftest a-program-does-not-wait-for-others-nor-when-told-so
  (is (= "main done" (run-text "(require '[magnetar.actor :as actor])
                                (actor/spawn (fn [] (Thread/sleep 100000) (println \"never\")))
                                (println \"main done\")")))
  (is (= "main done" (run-text (str/replace program-with-a-name "300" "100000") "--no-wait"))))

(deftest the-third-ctrl-c-while-one-line-is-done-ends-the-program
  (let [said (atom [])
        goes-on (atom false)
        [press begin] (repl/ctrl-c {:interrupt #(swap! said conj :interrupt), :leave #(swap! said conj :leave)
                                    :goes-on? #(deref goes-on), :say #(swap! said conj :say)})]
    (press)
    (begin)
    (dotimes [_ 2] (press))
    (is (= [:interrupt :interrupt :interrupt] @said))
    (press)
    (is (= :leave (peek @said)))
    (testing "a form that goes on after the first is said to"
      (reset! said [])
      (reset! goes-on true)
      (begin)
      (dotimes [_ 3] (press))
      (is (= [:interrupt :say :interrupt :leave] @said)))))

(deftest what-fibers-print-stands-above-the-line-that-is-typed
  (let [reading (atom true)
        shown (atom [])
        reader (reify LineReader
                 (isReading [_] @reading)
                 (^void printAbove [_ ^String text] (swap! shown conj text)))
        terminal (StringWriter.)
        out (PrintWriter. (repl/above reader terminal) true)]
    (.print out "tick ")
    (.println out 1)
    (.print out "half")
    (.flush out)
    (is (= [["tick 1\n" "half"] ""] [@shown (str terminal)]))
    (.print out "the rest is not lost")
    (reset! reading false)
    (.println out)
    (is (= [["tick 1\n" "half" "the rest is not lost"] "\n"] [@shown (str terminal)]))))

(deftest the-port-file-of-another-server-that-is-alive-stays
  (let [file (str (write (temporary-folder) ".port" ""))]
    (with-open [other (ServerSocket. 0 1 (InetAddress/getByName "127.0.0.1"))]
      (let [port (.getLocalPort other)]
        (is (= (str "port in " file) (repl/note-port file port)) "an empty file")
        (is (= (str "port in " file) (repl/note-port file port)) "its own")
        (is (= (str file " stays: it names another server that is alive, on port " port) (repl/note-port file 1)))
        (is (= (str port "\n") (slurp file)))))
    (is (= (str "port in " file) (repl/note-port file 1)))
    (is (= "1\n" (slurp file)))))

(deftest a-port-may-stand-after-an-equals-sign
  (is (re-find #"`x` is not a port" (:err (magnetar {:folder (temporary-folder)} "repl" "--nrepl" "--port=x")))))

(deftest a-process-of-a-terminal-is-named-after-its-line-of-the-input
  (is (= [1 2] (map (comp :line meta) (#'repl/read-all "(spawn f)\n(spawn g)")))))
