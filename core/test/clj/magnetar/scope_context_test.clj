(ns magnetar.scope-context-test
  "Context values and dynamic bindings: what a fiber sees of the one that started it."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.scope.context :as context :refer [defcontext with-context]]
   [magnetar.scope.thread-locals :as thread-locals]
   [magnetar.support :refer [taken value-of]])
  (:import
   (java.io StringWriter)
   (java.lang ScopedValue ScopedValue$CallableOp)
   (java.util.concurrent CompletableFuture)))

(set! *warn-on-reflection* true)

(defcontext user)
(defcontext locale :en)

(def ^:dynamic *dynamic* :root)

(defn- seen []
  [(try @user (catch IllegalArgumentException _ :unbound)) @locale])

;; ---- binding and reading

(deftest a-context-value-is-bound-in-a-body-and-nowhere-else
  (is (= [:unbound :en] (seen)))
  (is (= ["ada" :en] (with-context [user "ada"] (seen))))
  (is (= ["ada" :fr] (with-context [user "ada"] (with-context [locale :fr] (seen)))))
  (is (= ["bob" :en] (with-context [user "ada"] (with-context [user "bob"] (seen)))))
  (is (= ["ada" :en] (with-context [user "ada"] (with-context [user "bob"]) (seen))))
  (is (= [:unbound :en] (seen))))

(deftest a-body-that-throws-leaves-the-values-as-they-were
  (is (thrown? ArithmeticException (with-context [user "ada"] (/ 1 0))))
  (is (= [:unbound :en] (seen))))

(deftest a-value-may-be-nil-or-false
  (is (= [nil false] (with-context [user nil locale false] (seen)))))

(deftest reading-an-unbound-value-without-default-fails-with-a-sentence
  (let [e (try @user (catch IllegalArgumentException e e))]
    (is (= {:magnetar/reason :magnetar/unbound-context :context `user} (ex-data e)))
    (is (= (str "The context value magnetar.scope-context-test/user has no value here and no default: "
                "bind it with (with-context [user ..] ..).")
           (ex-message e)))))

(deftest with-context-binds-context-values-only
  (is (= :magnetar/not-a-context
         (:magnetar/reason (ex-data (try (with-context ["user" 1] 1) (catch IllegalArgumentException e e)))))))

(deftest a-context-value-can-be-made-without-a-var
  (let [request (context/context 'request :none)]
    (is (= [:none 5] [@request (context/context* {request 5} #(deref request))]))))

;; ---- what starts a fiber hands them on

(deftest ^{:spec ["C44"]} every-fiber-of-the-library-sees-the-values-of-the-one-that-starts-it
  (with-context [user "ada" locale :fr]
    (is (= ["ada" :fr] (with-scope [s] @(fork s seen))))
    (is (= ["ada" :fr] (with-scope [s] @(fork s #(with-scope [t] @(fork t seen))))))
    (is (= ["ada" :fr] (with-scope [s] @(scope/daemon s seen))))
    (is (= ["ada" :fr] (with-scope [s] (taken (scope/go s (seen))))))
    (is (= ["ada" :fr] (taken (a/go (seen)))))
    (is (= ["ada" :fr] (taken (a/go (taken (a/go (seen)))))))
    (is (= ["ada" :fr] (taken (a/io-thread (seen)))))))

(deftest ^{:spec ["C44"]} a-fork-of-another-context-does-not-change-its-starters
  (with-context [user "ada"]
    (is (= [["bob" :en] ["ada" :en]]
           (with-scope [s]
             [@(fork s #(with-context [user "bob"] (seen))) (seen)])))))

(deftest ^{:spec ["C44"]} a-callback-sees-the-values-of-whoever-registered-it
  (testing "and not those of whoever completes the operation"
    (doseq [on-caller? [true false]]
      (let [c (channel/chan)
            got (promise)
            after (promise)]
        (with-context [user "ada"]
          (a/take! c (fn [_] (deliver got (seen))) on-caller?))
        (with-context [user "completer" locale :xx]
          (channel/put c 1)
          (deliver after (seen)))
        (is (= ["ada" :en] (value-of got)))
        (is (= ["completer" :xx] (value-of after))))))
  (let [c (channel/chan)
        got (promise)]
    (with-context [user "ada"] (a/put! c 1 (fn [_] (deliver got (seen)))))
    (is (= 1 (taken c)))
    (is (= ["ada" :en] (value-of got)))))

(deftest who-awaits-a-callback-or-a-stage-keeps-its-values
  (with-context [user "ada"]
    (is (= ["ada" :en] (do (scope/await-callback (fn [resolve _] (.start (Thread. ^Runnable #(resolve 1))))) (seen))))
    (is (= ["ada" :en] (do (scope/join (CompletableFuture/supplyAsync (fn [] 1))) (seen))))))

(deftest clean-ups-see-the-values-of-their-scope
  (let [got (promise)]
    (with-context [user "ada"]
      (with-scope [s] (scope/on-exit s #(deliver got (seen)))))
    (is (= ["ada" :en] @got))))

;; ---- thread-locals of other libraries; test/context-propagation has the other tests

(deftest thread-locals-need-a-library-that-the-program-adds
  (is (= [] (thread-locals/propagated)))
  (let [e (try (thread-locals/propagate) (catch clojure.lang.ExceptionInfo e e))]
    (is (= {:magnetar/reason :magnetar/library-missing :library 'io.micrometer/context-propagation}
           (select-keys (ex-data e) [:magnetar/reason :library])))
    (is (= (str "`propagate` needs io.micrometer:context-propagation, which is not on the class path: add it to the libraries of the project, "
                "as in io.micrometer/context-propagation {:mvn/version \"1.1.3\"}.")
           (ex-message e))))
  (is (= [] (thread-locals/propagated)))
  (is (nil? (thread-locals/stop))))

;; ---- dynamic bindings

(deftest ^{:spec ["C45"]} a-fork-sees-the-bindings-of-its-starter
  (let [out (StringWriter.)]
    (binding [*dynamic* :bound
              *out* out]
      (is (= :bound (with-scope [s] @(fork s (fn [] *dynamic*)))))
      (is (= :bound (with-scope [s] @(fork s #(with-scope [t] @(fork t (fn [] *dynamic*)))))))
      (is (= :bound (with-scope [s] (taken (scope/go s *dynamic*)))))
      (with-scope [s] (fork s print "printed") (scope/daemon s (fn [])))
      (is (= "printed" (str out)))))
  (is (= :root (with-scope [s] @(fork s (fn [] *dynamic*))))))

(deftest ^{:spec ["C45"]} a-fork-takes-the-bindings-of-the-fork-that-starts-it-not-of-the-scope
  (is (= :inner (with-scope [s]
                  @(fork s (fn [] (binding [*dynamic* :inner] @(fork s (fn [] *dynamic*)))))))))

(deftest ^{:spec ["C45"]} a-binding-of-a-fork-does-not-reach-its-starter
  (binding [*dynamic* :owner]
    (is (= [:fork :owner]
           (with-scope [s]
             [@(fork s #(binding [*dynamic* :fork] *dynamic*)) *dynamic*])))))

;; ---- ScopedValues of the JDK

(def ^:private ^ScopedValue request (ScopedValue/newInstance))
(def ^:private ^ScopedValue tenant (ScopedValue/newInstance))

(defn- value [^ScopedValue sv]
  (if (.isBound sv) (.get sv) :not-bound))

(defn- with-request [f]
  (.call (.where (ScopedValue/where request 7) tenant "t") (reify ScopedValue$CallableOp (call [_] (f)))))

(deftest ^{:spec ["C46"]} scoped-values-that-are-named-are-bound-again-in-every-fork
  (with-request
    (fn []
      (is (= [7 "t"] (with-scope [s {:inherit [request tenant]}] @(fork s #(mapv value [request tenant])))))
      (is (= [7 :not-bound] (with-scope [s {:inherit [request]}] @(fork s #(mapv value [request tenant])))))
      (is (= :not-bound (with-scope [s] @(fork s value request))))
      (is (= 7 (with-scope [s {:inherit [request]}] (taken (scope/go s (value request))))))
      (is (= 7 (with-scope [s {:inherit #{request}}] @(fork s (fn [] @(fork s value request))))))
      (is (= 7 (with-scope [s {:inherit [request]}]
                 @(fork s #(with-scope [t {:inherit [request]}] @(fork t value request))))))))
  (is (= :not-bound (with-scope [s {:inherit [request]}] @(fork s value request)))))
