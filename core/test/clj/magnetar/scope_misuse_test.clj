(ns magnetar.scope-misuse-test
  "What is done wrong with scopes and folds is answered at once: a sentence with culprit, place and remedy, and data."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.fold :as fold]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.scope.context :as context :refer [defcontext]]
   [magnetar.support :refer [start-thread value-of]])
  (:import
   (java.time Instant)
   (java.util.concurrent CompletableFuture)
   (magnetar.kernel.scope Fork)))

(set! *warn-on-reflection* true)

(defn- refusal
  "What f is answered: the error."
  [f]
  (try
    (f)
    (throw (AssertionError. "nothing was thrown"))
    (catch Exception e e)))

(defn- golden
  "The message, with N for the lines of this file and of the names of the compiler."
  [e]
  (-> (str (ex-message e))
      (str/replace #"\S*scope_misuse_test\.clj:\d+" "FILE:N")
      (str/replace #"(?<=fn--)\d+" "N")))

(defmacro refused
  "Checks that body is refused with this reason and this sentence, and that the data say so too; returns the data."
  [reason message & body]
  `(let [e# (refusal (fn [] ~@body))]
     (is (= ~message (golden e#)))
     (is (= ~reason (:magnetar/reason (ex-data e#))))
     (is (~'instance? RuntimeException e#))
     (ex-data e#)))

;; ---- the list of the issue

(deftest ^{:spec ["C37"]} a-fork-outside-its-scope
  (with-scope [s]
    (let [stranger #(do (.setName (Thread/currentThread) "stranger") (refusal (fn [] (fork s inc 1))))
          e (value-of (second (start-thread :platform stranger)))]
      (is (instance? IllegalArgumentException e))
      (is (= "A fork in the scope FILE:N by a fiber that it does not own, stranger: open a scope there, or fork that work too." (golden e)))
      (is (= :magnetar/outside-scope (:magnetar/reason (ex-data e))))
      (is (re-matches #"scope .*scope_misuse_test\.clj:\d+" (:site (ex-data e)))))))

(deftest ^{:spec ["C37"]} a-fork-in-a-scope-that-has-ended
  (let [ended (with-scope [s] s)]
    (refused :magnetar/scope-ended "A fork in the scope FILE:N, which has ended: fork inside the body of with-scope." (fork ended inc 1))
    (refused :magnetar/scope-ended "on-exit in a scope that has ended: add it inside the body of with-scope." (scope/on-exit ended inc))))

(deftest ^{:spec ["C37"]} joining-from-inside-the-joined
  (doseq [join [deref scope/join #(.get ^Fork %)]]
    (let [me (promise)
          e (with-scope [s]
              (deliver me (fork s (fn [] (refusal #(join @me)))))
              @@me)]
      (is (instance? IllegalStateException e))
      (is (= "The fork FILE:N waits for its own end, which would never come: join it outside of it." (golden e)))
      (is (= [:magnetar/endless-join @me] ((juxt :magnetar/reason :fork) (ex-data e)))))
    (let [me (promise)
          inner (promise)]
      (with-scope [s]
        (deliver me (fork s (fn [] (with-scope [t] (fork t #(deliver inner (refusal (fn [] (join @me))))))))))
      (is (= "The fork FILE:N waits for the end of the fork FILE:N, which waits for it, in a scope or in offloaded work of its own: join it outside of that."
             (golden @inner)))
      (is (= #{:magnetar/reason :site :fork :joiner} (set (keys (ex-data @inner))))))))

(deftest ^{:spec ["C37"]} joining-from-work-that-the-joined-has-offloaded
  (doseq [roundabout [#(%) #(with-scope [t] @(fork t %)) #(scope/offload %)]]
    (let [me (promise)
          inner (promise)]
      (with-scope [s]
        (deliver me (fork s (fn [] (scope/offload (fn [] (roundabout (fn [] (deliver inner (refusal #(deref @me)))))))))))
      (is (= "waits for the end of the fork FILE:N, which waits for it" (re-find #"waits for.*for it" (golden (value-of inner)))))
      (is (= [:magnetar/endless-join @me] ((juxt :magnetar/reason :fork) (ex-data (value-of inner))))))))

(deftest ^{:spec ["C40"]} a-deadline-in-the-past
  (let [ran (atom false)
        data (refused :magnetar/deadline
                      "The scope FILE:N ran out of time before it began: its :deadline, 1970-01-01T00:00:00Z, lies in the past. Give it one that lies ahead."
                      (with-scope [_ {:deadline Instant/EPOCH}] (reset! ran true)))]
    (is (= Instant/EPOCH (:deadline data)))
    (is (false? @ran)))
  (is (= {:deadline -5 :path [:deadline] :value -5 :magnetar/reason :magnetar/bad-duration}
         (refused :magnetar/bad-duration
                  "`magnetar.scope/with-scope`: :deadline is a number of milliseconds from 0 up, a java.time.Duration or :infinity; this is -5."
                  (with-scope [_ {:deadline -5}] 1)))))

(deftest ^{:spec ["C55"]} a-negative-parallelism
  (is (= {:option :parallelism :value -1 :magnetar/reason :magnetar/bad-option}
         (refused :magnetar/bad-option "`fold/pmap` wants a whole number from 1 up for :parallelism; this is -1."
                  (fold/pmap inc [1] {:parallelism -1})))))

(deftest ^{:spec ["C55"]} a-transducer-where-a-function-belongs
  (is (= "a function of one argument"
         (:role (refused :magnetar/not-a-function
                         (str "`fold/pmap` wants a function of one argument; this is a transducer. "
                              "A transducer goes to fold/transduce, or around the collection: (eduction xform coll).")
                         (fold/pmap (map inc) [1])))))
  (refused :magnetar/not-a-function
           (str "`fold/fold` wants a combine function of two arguments; this is a transducer. "
                "A transducer goes first: (fold/transduce xform combinef reducef coll).")
           (fold/fold (map inc) [1])))

(deftest ^{:spec ["C55"]} a-combine-function-without-identity
  (is (= {:combinef max :magnetar/reason :magnetar/no-identity}
         (refused :magnetar/no-identity
                  (str "`fold/fold` starts each chunk with the value of the combine function without arguments, and clojure.core/max has none. "
                       "Give it one: (clojure.core.reducers/monoid f (constantly start)).")
                  (fold/fold max [1]))))
  (refused :magnetar/not-associative
           (str "`fold/fold` cannot combine with conj, which puts a chunk's result into the other as one element. "
                "Combine with into: (fold/fold into conj coll).")
           (fold/fold conj [1])))

;; ---- beyond it

(deftest options-that-are-no-map-or-not-known
  (refused :magnetar/bad-options "`magnetar.scope/with-scope` takes its options as a map; this is 500." (with-scope [_ 500] 1))
  (is (= [:deadlin] (:unknown (refused :magnetar/unknown-option
                                       "`magnetar.scope/with-scope` does not know :deadlin; its options are :bindings, :deadline, :inherit, :joiner, :patience. Is :deadline meant?"
                                       (with-scope [_ {:deadlin 5}] 1)))))
  (refused :magnetar/unknown-option "`magnetar.scope/join` does not know :timout; its options are :else, :timeout. Is :timeout meant?"
           (scope/join (CompletableFuture.) {:timout 5}))
  (refused :magnetar/bad-options "`magnetar.scope/await-callback` takes its options as a map; this is 5." (scope/await-callback (fn [resolve _] (resolve 1)) 5))
  (refused :magnetar/bad-option "`magnetar.scope/with-scope`: :bindings is :frame, so that forks see the dynamic bindings of their starter, or :none; this is true."
           (with-scope [_ {:bindings true}] 1)))

(deftest what-cannot-be-called
  (with-scope [s]
    (refused :magnetar/not-a-function "`fork` wants a function, as in (fork s fetch-user id); this is nil." (fork s nil))
    (refused :magnetar/not-a-function "`daemon` wants a function, as in (daemon s fetch-user id); this is 5." (scope/daemon s 5))
    (refused :magnetar/not-a-function "`scope/go*` wants a function, as in (scope/go* s #(fetch-user id)); this is 5." (scope/go* s 5))
    (refused :magnetar/not-a-function "`on-exit` wants a function, as in (on-exit s (fn [] (close connection))); this is 5." (scope/on-exit s 5)))
  (refused :magnetar/not-a-function "`offload` wants a function, as in (offload slurp \"big.edn\"); this is \"big.edn\"." (scope/offload "big.edn"))
  (refused :magnetar/not-a-function "`await-callback` wants a function, as in (await-callback (fn [resolve reject] ..)); this is 5."
           (scope/await-callback 5)))

(deftest what-is-no-scope-fork-stage-or-channel
  (refused :magnetar/not-a-scope "`fork` wants a scope, as with-scope binds it; this is :s." (fork :s inc 1))
  (refused :magnetar/not-a-scope "`scope/go` wants a scope, as with-scope binds it; this is 5." (scope/go 5 1))
  (refused :magnetar/not-a-fork "`result` wants a fork; this is 5." (scope/result 5))
  (refused :magnetar/not-joinable "`join` wants a fork or a CompletionStage; this is 5." (scope/join 5))
  (refused :magnetar/not-a-stage "`stage->chan` wants a CompletionStage; this is 5." (scope/stage->chan 5))
  (refused :magnetar/not-a-channel "`chan->stage` wants a channel; this is 5." (scope/chan->stage 5)))

(deftest a-duration-that-is-missing
  (refused :magnetar/bad-duration
           "`magnetar.scope/sleep`: :duration is a number of milliseconds from 0 up, a java.time.Duration or :infinity; this is nil."
           (scope/sleep nil)))

(deftest a-binding-that-binds-no-scope
  (let [e (refusal #(macroexpand '(magnetar.scope/with-scope s 1)))]
    (is (= "`with-scope` binds a scope to a symbol, as in (with-scope [s {:deadline 500}] ..); this is s." (ex-message (ex-cause e))))
    (is (= :magnetar/bad-binding (:magnetar/reason (ex-data (ex-cause e)))))))

(defcontext user)

(deftest a-context-value-prints-its-name-and-is-named-by-a-symbol
  (is (= "#<Context magnetar.scope-misuse-test/user>" (pr-str user)))
  (refused :magnetar/not-a-symbol "`context` wants a symbol as the name; this is \"user\"." (context/context "user"))
  (refused :magnetar/unbound-context
           (str "The context value magnetar.scope-misuse-test/user has no value here and no default: bind it with (with-context [user ..] ..).")
           @user))
