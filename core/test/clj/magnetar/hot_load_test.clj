(ns magnetar.hot-load-test
  "Loading changed source: all or none, what is stale, the order, versions."
  (:require
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! after receive self spawn]]
   [magnetar.actor-support :as processes]
   [magnetar.gen-server :as gs]
   [magnetar.hot :as hot]
   [magnetar.hot-support :as code]
   [magnetar.support :refer [collected? eventually]]
   [magnetar.sys :as sys])
  (:import
   (clojure.lang ExceptionInfo MultiFn Var)
   (java.util.jar JarEntry JarOutputStream)))

(set! *warn-on-reflection* true)

(defn- error-of [f]
  (try (f) nil (catch Exception e e)))

;; ---- all or none

(defn- var-view [^Var v]
  (let [root (.getRawRoot v)]
    [v root (meta v) (.isDynamic v) (when (instance? MultiFn root) (methods root))]))

(defn- view
  "Everything that loading must not change when it fails."
  [namespaces]
  {:all (set (map ns-name (all-ns)))
   :libs (loaded-libs)
   :each (for [ns namespaces]
           [(ns-map ns) (ns-aliases ns) (meta (the-ns ns)) (mapv var-view (sort-by str (vals (ns-interns ns))))])})

(defn- breaks
  "Pairs of what goes wrong, and forms that first change a lot."
  [ns other fresh]
  (let [changes [(list 'ns ns {:version 9} '(:require [clojure.set :as s]) '(:import (java.util ArrayList)))
                 '(def value 9) '(def added 9) '(defrecord Point [z]) '(defmethod shape :square [_] 9) '(defmethod shape :circle [_] 9)
                 '(def unbound 9) "(def ^:dynamic plain 9)"
                 (list 'alter-var-root (list 'var (symbol (str other) "shared")) '(constantly 9))
                 (list 'extend-type 'Long (symbol (str other) "Sized") '(size [_] 9))
                 (list 'create-ns (list 'quote fresh))
                 (list 'intern (list 'quote other) ''intruder 9)]]
    {"a symbol that does not resolve" (conj changes '(defn f [] (oops)))
     "an error in the source" (conj changes "(defn f [")
     "an exception" (conj changes '(throw (ex-info "boom" {})))
     "an Error" (conj changes '(throw (AssertionError. "boom")))
     "a macro" (conj changes '(let [x] x))
     "a library that is not there" (conj changes '(require 'no.such.library))}))

(defn- prepare [ns other]
  (code/load-forms other (list 'ns other) '(def shared 1) '(defprotocol Sized (size [x]))
                   '(defn size-or-none [x] (if (satisfies? Sized x) (size x) :none)))
  (code/load-forms ns (list 'ns ns {:version 1} '(:require [clojure.string :as s :refer [blank?]]) '(:import (java.util Date)))
                   '(def value 1) '(declare unbound) '(def plain 1)
                   '(defrecord Point [x y]) '(defmulti shape identity) '(defmethod shape :circle [_] 1)))

(deftest ^{:spec ["C130"]} a-namespace-that-does-not-load-changes-nothing
  (let [ns (code/new-name "all-or-none")
        other (code/new-name "other")
        fresh (code/new-name "fresh")]
    (prepare ns other)
    (doseq [[what forms] (breaks ns other fresh)]
      (testing what
        (let [before (view [ns other])
              path (apply code/write (code/folder) ns forms)]
          (is (instance? ExceptionInfo (error-of #(hot/load path))))
          (is (= before (view [ns other])))
          (is (= 1 (hot/version ns) (code/value ns 'value)))
          (is (= [:x :y] (keys (binding [*ns* (the-ns ns)] (eval '(Point. 1 2))))) "a class that is compiled against is the old one")
          (is (= :none (code/call other 'size-or-none 5)) "no method of a protocol is left")))))
  (testing "of several, the last of which fails"
    (let [a (code/new-name "a")
          b (code/new-name "b")
          before (view [])]
      (is (error-of #(hot/load [(code/write (code/folder) a (list 'ns a) '(def x 1))
                                (code/write (code/folder) b (list 'ns b (list :require a)) '(oops))])))
      (is (= before (view [])))
      (is (nil? (find-ns a))))))

(deftest ^{:spec ["C131"]} what-the-new-source-does-not-have-is-gone
  (let [ns (code/new-name "stale")]
    (code/load-forms ns (list 'ns ns '(:require [clojure.string :as text :refer [blank?]])) '(def here 1) '(def gone 1) '(defonce kept (atom 1)) '(defmulti m identity))
    (reset! (code/value ns 'kept) 7)
    (let [m (code/value ns 'm)
          report (code/load-forms ns (list 'ns ns '(:require [clojure.set :as text])) '(def here 2) '(defonce kept (atom 1)) '(defmulti m identity)
                                  '(def blank? 3))]
      (is (= '[gone] (:removed (first (:loaded report)))))
      (is (= ::code/none (code/value ns 'gone)))
      (is (= [2 7 3] [(code/value ns 'here) @(code/value ns 'kept) (code/value ns 'blank?)]) "defonce keeps its value, a name may mean another thing")
      (is (identical? m (code/value ns 'm)))
      (is (= "clojure.set" (str (get (ns-aliases ns) 'text)))))))

;; ---- what is compiled after a load that failed

(deftest ^{:spec ["C130"]} a-type-that-is-compiled-after-a-load-that-failed-implements-the-protocol-that-is-there
  (let [ns (code/new-name "protocol")
        forms [(list 'ns ns) '(defprotocol Sized (extent [x])) '(defn size-of [x] (extent x))]
        sized (symbol (str ns) "Sized")]
    (apply code/load-forms ns forms)
    (is (error-of #(apply code/load-forms ns (conj forms '(oops)))))
    (is (= 1 (code/call ns 'size-of (eval (list 'reify sized '(extent [_] 1))))))
    (let [user (code/new-name "record")]
      (code/load-forms user (list 'ns user) (list 'defrecord 'R [] sized '(extent [_] 2)) '(def r (->R)))
      (is (= 2 (code/call ns 'size-of (code/value user 'r)))))))

(deftest ^{:spec ["C130"]} a-preference-of-a-multimethod-is-taken-back
  (let [ns (code/new-name "prefers")
        preferring (fn [a b & more] (concat [(list 'ns ns) '(defmulti kind class) '(defmethod kind Comparable [_] :comparable)
                                             '(defmethod kind java.io.Serializable [_] :serializable) (list 'prefer-method 'kind a b)]
                                            more))]
    (code/load-forms ns (list 'ns ns) '(defmulti kind class))
    (is (error-of #(apply code/load-forms ns (preferring 'Comparable 'java.io.Serializable '(def called (kind "x")) '(oops)))))
    (is (= {} (prefers (code/value ns 'kind)) (methods (code/value ns 'kind))))
    (apply code/load-forms ns (preferring 'java.io.Serializable 'Comparable))
    (is (= :serializable (code/call ns 'kind "x")))))

;; ---- what is loaded, in which order

(defn- in-jar [path entries]
  (with-open [jar (JarOutputStream. (io/output-stream path))]
    (doseq [[name text] entries]
      (.putNextEntry jar (JarEntry. ^String name))
      (.write jar (.getBytes ^String text "UTF-8"))
      (.closeEntry jar)))
  path)

(deftest sources-are-loaded-behind-those-that-they-require
  (let [[a b c] (map code/new-name ["a" "b" "c"])
        folder (code/folder)]
    (code/write folder a (list 'ns a (list :require [b :as 'b])) '(def x (inc b/x)))
    (code/write folder b (list 'ns b (list :require c)) (list 'def 'x (list 'inc (symbol (str c) "x"))))
    (code/write folder c (list 'ns c) '(def x 1))
    (is (= [c b a] (map :namespace (:loaded (hot/load folder)))))
    (is (= 3 (code/value a 'x)))
    (is (= [] (:loaded (hot/load folder))) "what is loaded already is not loaded again")
    (code/write folder b (list 'ns b (list :require c)) '(def x 10))
    (is (= [b] (map :namespace (:loaded (hot/load folder)))) "and of a folder only what has changed")))

(deftest ^{:spec ["C130"]} an-ns-form-that-cannot-be-read-is-not-passed-over-in-a-folder
  (let [[a b] (map code/new-name ["a" "b"])
        folder (code/folder)]
    (code/write folder a (list 'ns a) '(def x 1))
    (code/write folder "template" "(ns {{name}}.core)")
    (let [path (code/write folder b (str "(ns " b " (:require [clojure.string :as s)\n(def y 1)"))
          e (error-of #(hot/load folder))]
      (is (= (str "The namespace " b " does not load at " path ":1: Unmatched delimiter: ). All namespaces are as they were before.") (ex-message e))))
    (is (nil? (find-ns a)))
    (is (nil? (find-ns b)))))

(deftest a-jar-is-read-as-it-is-now
  (let [ns (code/new-name "jar")
        path (str (code/folder) "/code.jar")
        text #(str (pr-str (list 'ns ns {:version %})) (pr-str (list 'def 'x %)))]
    (doseq [n [1 2]]
      (in-jar path {"some/code.clj" (text n), "data_readers.clj" "{}", "note.txt" "x"})
      (is (= [[ns n]] (map (juxt :namespace :to) (:loaded (hot/load path)))))
      (is (= n (code/value ns 'x))))))

(deftest a-namespace-is-found-on-the-class-path
  (is (= '[magnetar.hot-support] (map :namespace (:loaded (hot/load 'magnetar.hot-support)))))
  (is (re-matches #"[0-9a-f]{12}" (hot/version 'magnetar.hot-support))))

;; ---- versions, and who runs which

(def ^:dynamic *ask* nil)

(deftest ^{:spec ["C133"]} the-version-is-the-metadata-or-else-the-digest-of-the-source
  (let [ns (code/new-name "version")
        load #(:to (first (:loaded (apply code/load-forms ns %&))))
        digest (load (list 'ns ns))]
    (is (re-matches #"[0-9a-f]{12}" digest))
    (is (= digest (load (list 'ns ns)) (hot/version ns)))
    (is (not= digest (load (list 'ns ns) '(def x 1))))
    (is (= 2 (load (list 'ns ns {:version 2}))))
    (is (= digest (load (list 'ns ns))) "what was said once is not said for ever")
    (is (nil? (hot/version 'no.such.namespace)))
    (is (nil? (hot/version 'clojure.string)))))

(deftest ^{:spec ["C132" "C133"]} a-server-follows-at-the-next-message-and-says-which-version-its-state-is-of
  (doseq [hosting [:threaded :activated]]
    (let [ns (code/new-name "server")
          _ (apply code/load-forms ns (code/counter ns 1))
          [_ pid] (gs/start ns 5 {:hosting hosting})]
      (is (= [1 5] (gs/call pid :get)))
      (is (= {ns 1} (actor/process-info pid :code) (:code (sys/get-status pid))))
      (code/load-forms ns (list 'ns ns {:version 3}) '(defn init [n] [:ok n]) '(defn handle-call [_ _ n] [:reply [3 n] n])
                       '(defn handle-cast [_ n] [:noreply n]) '(defn handle-info [m n] [:noreply m]))
      (is (= [3 5] (gs/call pid :get)))
      (! pid 6)
      (is (= [3 6] (gs/call pid :get)) "a callback that is new is called")
      (is (= {ns 1} (actor/process-info pid :code)))
      (gs/stop pid))))

(deftest ^{:spec ["C132" "C133"]} a-loop-moves-at-its-next-continue
  (let [ns (code/new-name "loop")
        forms (fn [n] [(list 'ns ns {:version n} '(:require [magnetar.actor :as actor :refer [! receive]]))
                       (list 'defn 'serve ['s] (list 'receive ['from :get] (list 'do (list '! 'from [n 's]) '(actor/continue #'serve (inc s)))))])]
    (apply code/load-forms ns (forms 1))
    (actor/with-process {}
      (let [pid (spawn (ns-resolve ns 'serve) 0)
            ask #(do (! pid [(self) :get]) (receive [n s] [n s] (after 20000 :late)))]
        (is (= [1 0] (ask)))
        (is (processes/waits? pid))
        (apply code/load-forms ns (forms 2))
        (is (= {ns 1} (actor/process-info pid :code)) "it waits in the old code")
        (is (= [1 1] (ask)) "which takes one message more")
        (is (eventually (= {ns 2} (actor/process-info pid :code))))
        (is (= [2 2] (ask)))
        (actor/exit pid :kill)))))

(deftest ^{:spec ["C133"]} a-loop-that-moves-while-its-source-is-being-loaded-knows-what-it-runs
  (let [ns (code/new-name "meanwhile")
        pid (promise)
        forms (fn [n & more] (list* (list 'ns ns "With words.") '(require '[magnetar.actor :as actor :refer [! receive]])
                                    (list 'defn 'serve [] (list 'receive ['from :get] (list 'do (list '! 'from n) '(actor/continue #'serve)))) more))
        ask (fn [] (actor/with-process {} (! @pid [(self) :get]) (receive n n (after 20000 :late))))]
    (apply code/load-forms ns (forms 1))
    (deliver pid (spawn (ns-resolve ns 'serve)))
    (alter-var-root #'*ask* (constantly ask))
    (apply code/load-forms ns (forms 2 '(magnetar.hot-load-test/*ask*) '(magnetar.hot-load-test/*ask*)))
    (is (= 2 (ask)))
    (is (= {ns (hot/version ns)} (actor/process-info @pid :code)))
    (actor/exit @pid :kill)))

(deftest a-function-is-no-version
  (let [pid (spawn #(receive :never nil))]
    (is (nil? (actor/process-info pid :code)))
    (is (= {} (actor/process-info pid :dictionary)))
    (actor/exit pid :kill)))

;; ---- misuse

(def ^:private not-a-source "a source is the symbol of a namespace, or the path of a file, a folder or a jar.")

(deftest ^{:spec ["C130"]} misuse-is-answered-in-a-sentence
  (let [folder (code/folder)
        path (fn [name text] (let [f (io/file folder name)] (spit f text) (str f)))
        text (path "a.txt" "x")
        bare (path "bare.clj" "(def x 1)")]
    (doseq [[message f] {(str "`load` cannot load 7: " not-a-source) #(hot/load 7)
                         (str "`load` cannot load nil: " not-a-source) #(hot/load nil)
                         (str "`load` cannot load {:a 1}: " not-a-source) #(hot/load {:a 1})
                         "`load` cannot load \"nowhere.clj\": there is no such file." #(hot/load "nowhere.clj")
                         "`load` cannot load no.such.namespace: there is no source of that namespace on the class path." #(hot/load 'no.such.namespace)
                         (str "`load` cannot load " (pr-str text) ": it is no .clj, no .cljc, no jar and no folder.") #(hot/load text)
                         (str "`load` cannot load " (pr-str bare) ": it does not begin with an `ns` form.") #(hot/load bare)
                         "`version` wants the symbol of a namespace, as in (hot/version 'my.counter); this is \"x\"." #(hot/version "x")
                         "`watch` wants the path of a file, a folder or a jar that exists; this is \"nowhere\"." #(hot/watch "nowhere")
                         "`magnetar.hot/watch` does not know :reports; its options are :extra, :report, :timeout, :tree. Is :report meant?" #(hot/watch folder {:reports println})
                         "`magnetar.hot/watch`: :report is a function, as in println; this is 5." #(hot/watch folder {:report 5})
                         "`unwatch` wants what `watch` returned; this is 5." #(hot/unwatch 5)}]
      (let [e (error-of f)]
        (is (= message (ex-message e)))
        (is (keyword? (:magnetar/reason (ex-data e))))))))

(deftest an-error-in-the-source-says-where-it-is
  (let [ns (code/new-name "wrong")
        path (code/write (code/folder) ns (list 'ns ns) '(def x 1) '(defn f [] (oops)))
        e (error-of #(hot/load path))]
    (is (= (str "The namespace " ns " does not load at " path ":3: Unable to resolve symbol: oops in this context. All namespaces are as they were before.")
           (ex-message e)))
    (is (= {:magnetar/reason :magnetar/load-failed :namespace ns :path path} (ex-data e)))
    (is (some? (ex-cause e)))))
