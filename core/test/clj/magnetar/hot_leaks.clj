(ns magnetar.hot-leaks
  "Upgrades a server again and again, and says what is left of the code before; run in a JVM of its own, which clears soft references at each
  collection: Clojure holds classes by such."
  (:require
   [magnetar.actor :as actor]
   [magnetar.gen-server :as gs]
   [magnetar.hot :as hot]
   [magnetar.hot-support :as code])
  (:import
   (java.lang.management ManagementFactory)
   (java.lang.ref WeakReference)))

(set! *warn-on-reflection* true)

(def ^:private ns-name-of-all 'magnetar.hot-test.leaks)

(defn- forms [n]
  (let [shape (if (odd? (long n)) {:n 'k} ['k])]
    [(list 'ns ns-name-of-all {:version n} '(:require [clojure.string :as str]))
     '(defprotocol Shape (area [this]))
     '(defrecord Point [x y] Shape (area [_] (* x y)))
     '(extend-protocol Shape String (area [s] (count s)))
     '(defmulti speak identity)
     '(defmethod speak :cat [_] (map (fn [x] (str/upper-case x)) ["meow"]))
     (list 'defn 'init '[_] [:ok (if (odd? (long n)) {:n n} [n])])
     (list 'defn 'handle-call '[_ _ s] [:reply [n '(area (->Point 2 3)) '(first (speak :cat))] 's])
     '(defn handle-cast [_ s] [:noreply s])
     (list 'defn 'code-change '[_ s _] (list 'let ['k '(if (map? s) (:n s) (first s))] [:ok shape]))]))

(defn- loader-of ^WeakReference [name]
  (WeakReference. (.getClassLoader (class (code/value ns-name-of-all name)))))

(defn- measure []
  (dotimes [_ 5] (System/gc))
  {:classes (.getLoadedClassCount (ManagementFactory/getClassLoadingMXBean))
   :heap (.getUsed (.getHeapMemoryUsage (ManagementFactory/getMemoryMXBean)))})

(defn- settled
  "What is there after at most five seconds more, as soon as it is not much more than before: a timer or a thread may hold some until it ends."
  [before]
  (loop [left 50]
    (let [after (measure)]
      (if (or (zero? left) (<= (- (long (:heap after)) (long (:heap before))) 500000))
        after
        (do (Thread/sleep 100) (recur (dec left)))))))

(defn- upgrade
  "Upgrades to version n; a weak reference to the class loader of its callback."
  [pid folder n]
  (hot/upgrade pid (apply code/write folder ns-name-of-all (forms n)))
  (let [answer (gs/call pid :get)]
    (when-not (= [n 6 "MEOW"] answer)
      (throw (ex-info "A wrong answer." {:answer answer :version n}))))
  (loader-of 'handle-call))

(defn- fail-to-upgrade
  "An upgrade that is taken back."
  [pid folder n]
  (try
    (hot/upgrade pid (apply code/write folder ns-name-of-all (conj (forms n) '(defn code-change [_ _ _] (throw (ex-info "no" {}))))))
    (throw (AssertionError. "it was not taken back"))
    (catch clojure.lang.ExceptionInfo _)))

(defn- upgrades [how-many pid folder held]
  (doall (for [n (range 100 (+ 100 (long how-many)))]
           (let [loader (upgrade pid folder n)]
             (when (zero? (mod (long n) 4)) (fail-to-upgrade pid folder (+ 1000 (long n))))
             (when held (swap! held conj (code/value ns-name-of-all 'handle-call)))
             loader))))

(defn -main
  "Prints how many of so many class loaders are left, and by how much the loaded classes and the heap have grown; with `leak` the old functions are held."
  [how-many & [leak]]
  (let [folder (code/folder)
        held (when leak (atom []))]
    (apply code/load-forms ns-name-of-all (forms 1))
    (let [[_ pid] (gs/start ns-name-of-all nil)]
      (dotimes [n 10] (upgrade pid folder (+ 2 n)) (fail-to-upgrade pid folder 1000))
      (let [before (measure)
            loaders (upgrades (parse-long how-many) pid folder held)
            after (settled before)]
        (prn {:left (count (remove #(WeakReference/.refersTo % nil) loaders))
              :classes (- (long (:classes after)) (long (:classes before)))
              :kilobytes (quot (- (long (:heap after)) (long (:heap before))) 1000)
              :held (count (some-> held deref))})
        (actor/exit pid :kill)))
    (shutdown-agents)))
