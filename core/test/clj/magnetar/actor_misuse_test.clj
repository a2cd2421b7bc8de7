(ns magnetar.actor-misuse-test
  "What is wrong with a call is said at once, in one sentence: culprit, place, remedy."
  (:require
   [clojure.main :as main]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.actor :as actor :refer [! after from receive self spawn spawn-opt with-process]]
   [magnetar.actor-support :refer [idle misuse reason]]
   [magnetar.application :as application]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.gen-server :as gs]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [value-of with-failures]]
   [magnetar.sys :as sys]
   [magnetar.task.supervisor :as tasks]))

(set! *warn-on-reflection* true)

(defn- said
  "The sentence that f is refused with; pids as PID, and the place of tests as actor_misuse_test.clj:N."
  [f]
  (let [[_ sentence :as answer] (misuse f)]
    (if (string? sentence)
      (-> sentence
          (str/replace #"#magnetar/pid \"[^\"]*\"" "PID")
          (str/replace #"actor_misuse_test\.clj:\d+" "actor_misuse_test.clj:N"))
      answer)))

(defmacro ^:private compiling
  "The sentence that the form is refused with by the compiler."
  [form]
  `(try
     (binding [*ns* (the-ns '~'magnetar.actor-misuse-test)] (eval '~form))
     :no-error
     (catch clojure.lang.Compiler$CompilerException e#
       (ex-message (ex-cause e#)))))

(deftest a-name-that-is-nearly-anothers-is-asked-about
  (actor/with-process {:name ::logger}
    (is (str/ends-with? (said #(! ::loger :x)) (str " Is " ::logger " meant?")))
    (is (str/ends-with? (said #(! :nothing-like-it :x)) "returned."))))

(deftest ^{:spec ["C83"]} an-address-that-is-none
  (are [sentence f] (= sentence (said f))
    "Cannot send to nil at actor_misuse_test.clj:N: it is no pid and no name that a process is registered under. Send to what `spawn` or `whereis` returned."
    #(! nil :x)
    "Cannot send to :nobody at actor_misuse_test.clj:N: it is no pid and no name that a process is registered under. Send to what `spawn` or `whereis` returned."
    #(! :nobody :x)
    "Cannot send to 42 at actor_misuse_test.clj:N: it is no pid and no name that a process is registered under. Send to what `spawn` or `whereis` returned."
    #(! 42 :x)
    "`!` wants a pid, an alias or a name to send to; this is nil."
    #(dosync (! nil :x))
    "`send-after` wants a pid, an alias or a name to send to; this is nil."
    #(actor/send-after 10 nil :x)
    "`monitor` wants a pid or a name of a process; this is \"x\"."
    #(with-process {} (actor/monitor "x"))))

(deftest a-reference-is-no-process-to-watch
  (is (re-matches #"`monitor` wants a pid or a name of a process; this is #magnetar/ref \"\d+\.\d+\"\."
                  (said #(with-process {} (actor/monitor (actor/make-ref)))))))

(deftest what-a-process-cannot-do-to-itself
  (are [sentence f] (= sentence (said #(with-process {} (f))))
    "`trace` was called by PID for itself: each message would be told of in another one, without end. Let another process trace it."
    #(actor/trace (self) true)
    "`suspend-process` was called by PID for itself: it could not resume itself. Let another process do it."
    #(actor/suspend-process (self)))
  (is (true? (with-process {} (actor/trace (self) false)))))

(deftest a-clause-of-a-channel-that-is-none
  (are [sentence f] (= sentence (said #(with-process {} (f))))
    "A clause (from channel v ..) of a receive wants a channel; this is nil. Make one with magnetar.channel/chan."
    #(receive ::x nil (from nil v v))
    "A clause (from channel v ..) of a receive wants a channel; this is 5. Make one with magnetar.channel/chan."
    #(receive ::x nil (from 5 v v))))

(defn- place-of
  "The file that a prompt would name as the place of the error that f throws."
  [f]
  (try
    (f)
    (catch Exception e
      (-> e Throwable->map main/ex-triage :clojure.error/source))))

(deftest an-error-of-use-is-placed-where-the-library-was-called
  (are [f] (= "actor_misuse_test.clj" (place-of f))
    #(! nil :x)
    #(spawn-opt (fn []) {:nmae :x})
    #(self)
    #(actor/register nil nil)
    #(dosync (actor/join (idle)))))

(deftest the-reason-of-an-error-of-use-names-its-class
  (are [type f] (= type (with-failures [_] (:type (first (reason (spawn f))))))
    'magnetar.MisuseException #(! nil :x)
    'magnetar.StateException #(dosync (actor/join (self)))
    'java.lang.ArithmeticException #(/ 1 0)))

(deftest a-pid-that-is-none
  (are [sentence f] (= sentence (said #(with-process {} (f))))
    "`link` wants a pid, as `spawn`, `self` or `whereis` return it; this is :logger." #(actor/link :logger)
    "`unlink` wants a pid, as `spawn`, `self` or `whereis` return it; this is nil." #(actor/unlink nil)
    "`exit` wants a pid, as `spawn`, `self` or `whereis` return it; this is 1." #(actor/exit 1 :x)
    "`alive?` wants a pid, as `spawn`, `self` or `whereis` return it; this is [1]." #(actor/alive? [1])
    "`join` wants a pid, as `spawn`, `self` or `whereis` return it; this is \"p\"." #(actor/join "p")
    "`process-info` wants a pid, as `spawn`, `self` or `whereis` return it; this is :p." #(actor/process-info :p)
    "`mailbox` wants a registered name, a pid as `spawn`, `self` or `whereis` return it, or the :id of a process in `tree`; this is [1]." #(inspect/mailbox [1])
    "`mailbox` wants what lives, and no process has the name :p." #(inspect/mailbox :p)
    "`register` wants a pid, as `spawn`, `self` or `whereis` return it; this is nil." #(actor/register :x nil)
    "`demonitor` wants a reference, as `make-ref` or `monitor` return it; this is PID." #(actor/demonitor (self))
    "`cancel-timer` wants a timer, as `send-after`, `start-timer` or `timer/apply-after` return it; this is nil." #(actor/cancel-timer nil)))

(deftest outside-of-a-process
  (let [place (str "on \"" (.getName (Thread/currentThread)) "\"")
        sentence #(str "`" % "` was called outside of a process, " place ": start one with `spawn`, or make this thread one with `with-process`.")]
    (are [operation f] (= (sentence operation) (said f))
      "receive" #(receive x x)
      "self" #(self)
      "link" #(actor/link (idle))
      "monitor" #(actor/monitor (idle))
      "flag" #(actor/flag :trap-exit true)
      "flush" #(actor/flush)
      "exit" #(actor/exit :x)
      "pget" #(actor/pget :k)
      "make-alias" #(actor/make-alias)
      "spawn-link" #(actor/spawn-link identity 1)
      "spawn-monitor" #(actor/spawn-monitor identity 1)
      "continue" #(actor/continue identity 1))))

(defn- said-in
  "What `(receive x x)` says where `run` lets it happen, in a process."
  [run]
  (with-process {:name ::owner}
    (run (fn [] (said #(receive x x))))))

(deftest ^{:spec ["C70" "C83"]} what-a-process-starts-is-not-that-process
  (testing "a fork is named, and its owner"
    (is (re-find #"^`receive` was called in \"fork .*actor_misuse_test.clj:N\", which PID started and which is not that process: take what you need before, as in \(let \[me \(self\)\] \.\.\), and send to it\.$"
                 (said-in (fn [f] (scope/with-scope [s] (scope/join (scope/fork s f))))))))
  (are [name run] (let [sentence (said-in run)]
                    (and (str/starts-with? sentence "`receive` was called ")
                         (re-find name sentence)
                         (re-find #"with-process|\(let \[me \(self\)\]" sentence)))
    #"\"go .*actor_misuse_test.clj:N\"" #(a/<!! (a/go (%)))
    #"\"thread .*\"|async-mixed|on \"" #(a/<!! (a/thread (%)))
    #"clojure-agent-send-off-pool|on \"" #(deref (future (%)))
    #"" #(scope/offload %)
    #"" #(let [answer (promise) ch (a/chan)]
           (a/take! ch (fn [_] (deliver answer (%))))
           (deref (future (a/>!! ch 1)))
           (value-of answer))))

(deftest ^{:spec ["C75" "C83"]} a-name-that-cannot-be-had
  (let [pid (spawn-opt #(receive ::never nil) {:name ::taken})]
    (are [sentence f] (= sentence (said f))
      "Cannot register :magnetar.actor-misuse-test/taken for PID: the name belongs to PID. Choose another, or unregister that first."
      #(actor/register ::taken (idle))
      "Cannot register :magnetar.actor-misuse-test/taken for PID: the name belongs to PID. Choose another, or unregister that first."
      #(spawn-opt (fn []) {:name ::taken})
      "Cannot register :other for PID: it has the name :magnetar.actor-misuse-test/taken already. Unregister that first."
      #(actor/register :other pid)
      "`register` wants a keyword, a symbol or [:via registry name] as the name; this is \"logger\"."
      #(actor/register "logger" pid)
      "`register` wants a keyword, a symbol or [:via registry name] as the name; this is nil."
      #(actor/register nil pid)
      "A process is registered under a keyword, a symbol or [:via registry name]; this is 7."
      #(spawn-opt (fn []) {:name 7})
      "Cannot unregister :free: no process has this name."
      #(actor/unregister :free)
      "`unregister` wants a keyword, a symbol or [:via registry name] as the name; this is nil."
      #(actor/unregister nil))
    (testing "who could not have its name was never there"
      (is (= pid (actor/whereis ::taken))))
    (actor/exit pid :kill)
    (is (= :killed (reason pid)))
    (is (= "Cannot register :dead for PID: it is not alive. Register a process while it runs, best by the :name of its start." (said #(actor/register :dead pid))))))

(deftest a-duration-that-is-none
  (are [sentence f] (= sentence (said #(with-process {} (f))))
    "The time of an (after ..) is a number of milliseconds from 0 up, a java.time.Duration or :infinity; this is -1."
    #(receive ::x nil (after -1 nil))
    "The time of an (after ..) is a number of milliseconds from 0 up, a java.time.Duration or :infinity; this is nil."
    #(receive ::x nil (after (identity nil) nil))
    "`send-after` wants a number of milliseconds from 0 up or a java.time.Duration; this is -5."
    #(actor/send-after -5 (self) :x)
    (str "`start-timer` takes a time of at most 9223372036853 milliseconds, about 292 years; this is :infinity. "
         "Give a shorter one, or start no timer for what is never to come.")
    #(actor/start-timer :infinity (self) :x)
    (str "`send-after` takes a time of at most 9223372036853 milliseconds, about 292 years; this is 9223372036854775807. "
         "Give a shorter one, or start no timer for what is never to come.")
    #(actor/send-after Long/MAX_VALUE (self) :x)
    (str "`send-after` wants a number of milliseconds from 0 up or a java.time.Duration; "
         "this is PT-2562047788015215H-30M-8S.")
    #(actor/send-after (java.time.Duration/ofSeconds Long/MIN_VALUE) (self) :x)
    "`magnetar.actor/join`: :timeout is a number of milliseconds from 0 up, a java.time.Duration or :infinity; this is -1."
    #(actor/join (idle) {:timeout -1})))

(deftest options-that-are-wrong
  (are [sentence f] (= sentence (said #(with-process {} (f))))
    "`magnetar.actor/spawn-opt` does not know :nmae; its options are :bindings, :context, :link, :mailbox, :monitor, :name, :platform-thread, :trap-exit. Is :name meant?"
    #(spawn-opt (fn []) {:nmae :x})
    "`spawn-opt` takes the map of its options last, as in (spawn-opt serve state {:name :server}); this is [clojure.core/inc :x]."
    #(spawn-opt inc :x)
    "`spawn` wants a function, as in (spawn serve state); this is 5."
    #(spawn 5)
    "`spawn-opt` wants a function, as in (spawn-opt serve state); this is nil."
    #(spawn-opt nil {})
    "The :capacity of a mailbox is a whole number from 1 up; this is 0."
    #(spawn-opt (fn []) {:mailbox {:capacity 0}})
    "The :capacity of a mailbox is a whole number from 1 up; this is 100000000000000000000N."
    #(spawn-opt (fn []) {:mailbox {:capacity 100000000000000000000}})
    "The :when-full of a mailbox is :block, :drop-new, :drop-old or :fail; this is :dropp."
    #(spawn-opt (fn []) {:mailbox {:capacity 1 :when-full :dropp}})
    "`:mailbox` does not know :size; its options are :capacity, :when-full."
    #(spawn-opt (fn []) {:mailbox {:size 1}})
    "The :context of a process is :none or a map from contexts to values; this is 3."
    #(spawn-opt (fn []) {:context 3})
    "The :bindings of a process are :none, or left out; these are :all."
    #(spawn-opt (fn []) {:bindings :all})
    "`magnetar.actor/spawn-opt`: :link is true or false; this is 5."
    #(spawn-opt (fn []) {:link 5})
    "`magnetar.actor/spawn-opt`: :monitor is true or false; this is \"x\"."
    #(spawn-opt (fn []) {:monitor "x"})
    "`magnetar.actor/spawn-opt`: :trap-exit is true or false; this is 5."
    #(spawn-opt (fn []) {:trap-exit 5})
    "`magnetar.actor/spawn-opt`: :platform-thread is true or false; this is 5."
    #(spawn-opt (fn []) {:platform-thread 5})
    "`magnetar.gen-server/start`: :link is true or false; this is 5."
    #(gs/start {:init identity} 0 {:spawn-opt {:link 5}})
    "`trace` wants true or false; this is :foo."
    #(sys/trace :counter :foo)
    "The :spawn-opt of a server takes no :name, this is :n2: give the :name beside the :spawn-opt, as in {:name :counter :spawn-opt {..}}."
    #(gs/start {:init identity} 0 {:name :n1 :spawn-opt {:name :n2}})
    "`magnetar.actor/with-process` does not know :link; its options are :context, :mailbox, :name, :trap-exit."
    #(with-process {:link true} nil)
    "`magnetar.actor/join` does not know :timout; its options are :else, :timeout. Is :timeout meant?"
    #(actor/join (idle) {:timout 1})
    "`magnetar.actor/monitor` does not know :alais; its options are :alias, :tag. Is :alias meant?"
    #(actor/monitor (idle) {:alais :demonitor})
    "The :alias of a monitor is :explicit-unalias, :demonitor or :reply-demonitor; this is :yes."
    #(actor/monitor (idle) {:alias :yes})
    "`magnetar.actor/demonitor` does not know :flsh; its options are :flush, :info. Is :flush meant?"
    #(actor/demonitor (actor/make-ref) {:flsh true})
    "An alias is :explicit-unalias or :reply; this is :no."
    #(actor/make-alias :no)
    "The flag of a process is :trap-exit with true or false; this is :trap with true."
    #(actor/flag :trap true)
    "The flag of a process is :trap-exit with true or false; this is :trap-exit with :yes."
    #(actor/flag :trap-exit :yes)))

(deftest an-address-of-no-server-names-the-function-that-was-called
  (let [wants #(str "`" % "` wants a server as a pid, a name, [name node], [:global name] or [:via registry name]; this is \"text\".")]
    (are [function f] (= (wants function) (said f))
      "magnetar.sys/get-state" #(sys/get-state "text")
      "magnetar.supervisor/count-children" #(sup/count-children "text")
      "magnetar.task.supervisor/children" #(tasks/children "text")
      "call" #(gs/call "text" 1)
      "stop" #(gs/stop "text"))
    (is (= (wants "magnetar.supervisor/count-children") (said #(with-process {} (sup/count-children "text")))))))

(deftest a-server-that-is-not-there
  (are [sentence f] (= sentence (said f))
    "The stop of nil failed: :noproc. Give it the pid of a server, or its name." #(gs/stop nil)
    "The stop of :nobody failed: :noproc. No process has this name." #(gs/stop :nobody)
    "The call of nil with 1 failed: :noproc. Give it the pid of a server, or its name." #(gs/call nil 1)
    "The call of :nobody with 1 failed: :noproc. No process has this name." #(gs/call :nobody 1)
    "`get-application` wants a pid, as `self` or `whereis` return it; this is :x." #(application/get-application :x))
  (doseq [f [#(gs/call [:x "a@b"] 1) #(gs/stop [:x "a@b"])]]
    (is (str/ends-with? (said f) "This node, \"nonode@nohost\", is not connected with \"a@b\" or any other node."))))

(deftest linking-to-the-dead
  (let [pid (spawn (fn []))]
    (is (= :normal (reason pid)))
    (is (= "Cannot link PID to PID, which is dead (:noproc): use `spawn-link`, or trap exits."
           (said #(with-process {} (actor/link pid)))))))

(deftest waiting-for-oneself
  (with-process {}
    (let [me (self)]
      (is (= "The process PID waits for its own end, which would never come: join it from another process." (said #(actor/join me))))))
  (with-process {:mailbox {:capacity 1}}
    (! (self) 1)
    (is (= "The process PID sends to itself, and its own mailbox is full with 1 messages: it would wait for itself. Receive first."
           (said #(! (self) 2))))))

(deftest a-full-mailbox-that-refuses
  (let [pid (spawn-opt #(receive ::never nil) {:mailbox {:capacity 2 :when-full :fail}})]
    (! pid 1)
    (! pid 2)
    (is (= "The mailbox of PID is full: it holds 2 messages, and was made to refuse more. Send less, or wait for answers."
           (said #(! pid 3))))))

(deftest ^{:spec ["C81" "C83"]} in-a-transaction
  (let [sentence #(str "`" % "` was called in a transaction, which may run more than once: call it outside of the dosync.")
        ch (a/chan 1)]
    (are [operation f] (= (sentence operation) (said #(with-process {} (dosync (f)))))
      "receive" #(receive x x)
      "flush" #(actor/flush)
      "demonitor" #(actor/demonitor (actor/make-ref) {:flush true})
      "join" #(actor/join (idle))
      "spawn-opt" #(spawn-opt (fn []) {})
      "spawn-link" #(actor/spawn-link (fn []))
      "send-after" #(actor/send-after 1 (self) :x)
      "<!" #(a/<!! ch)
      "<!" #(a/<! ch)
      ">!" #(a/>! ch 1)
      "alts!" #(a/alts! [ch])
      "poll!" #(a/poll! ch)
      "offer!" #(a/offer! ch 1)
      "take" #(channel/take ch)
      "put" #(channel/put ch 1)
      "select" #(channel/select [ch]))))

(deftest clauses-that-cannot-be-compiled
  (are [sentence form] (= sentence (compiling form))
    "(after ..) stands outside of a receive: move it into one, behind its last clause."
    (after 10 :x)
    "(from ..) stands outside of a receive: move it into one, behind its patterns."
    (magnetar.actor/from ch v v))
  (are [words form] (let [sentence (compiling form)]
                      (and (string? sentence) (re-find words sentence)))
    #"\[:a x\].* has no body" (receive [:a x] (after 10 nil))
    #"String" (receive String 1)
    #"\(\(foo x\)\)|\(foo x\)" (receive (foo x) 1)))
