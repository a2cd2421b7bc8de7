(ns magnetar.test.text
  "Values as text that is the same in each run: no identity hashes, no order of hashing, nothing lazy is made to happen."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang Named)
   (magnetar.kernel.process Pid Ref)))

(set! *warn-on-reflection* true)

(def ^:private longest 80)

(def ^:private most 8)

(def ^:private deepest 3)

(defn- bounded [s]
  (if (< (long longest) (count s)) (str (subs s 0 longest) "..") s))

(def ^:dynamic *node*
  "From the creation of a pid to the name of its node and a slash, or the empty string."
  (constantly ""))

(declare text-of)

(defn- items [open close texts]
  (str open (str/join " " (take most texts)) (when (seq (drop most texts)) " ..") close))

(defn- entry-text [depth [k v]]
  (str (text-of depth k) " " (text-of depth v)))

(defn- kind
  "The name of its class, without what differs from JVM to JVM: the numbers of functions, the addresses of lambdas."
  [value]
  (str/replace (.getSimpleName (class value)) #"__\d+|\$\$Lambda.*" ""))

(defn- collection [depth value]
  (let [below #(text-of (inc (long depth)) %)]
    (cond
      (< (long deepest) (long depth)) ".."
      (record? value) (kind value)
      (map? value) (items "{" "}" (sort (map #(entry-text (inc (long depth)) %) value)))
      (set? value) (items "#{" "}" (sort (map below value)))
      (vector? value) (items "[" "]" (map below value))
      (list? value) (items "(" ")" (map below value)))))

(defn- failure [^Throwable t]
  (str (kind t) (some->> (.getMessage t) bounded (str ": "))))

(defn- text-of [depth value]
  (cond
    (or (nil? value) (boolean? value) (number? value) (char? value) (instance? Named value)) (pr-str value)
    (string? value) (pr-str (bounded value))
    (instance? Pid value) (str "pid " (*node* (.creation ^Pid value)) (.serial ^Pid value))
    (instance? Ref value) "ref"
    (instance? Throwable value) (failure value)
    (coll? value) (or (collection depth value) (kind value))
    :else (kind value)))

(defn text
  "The value as text of bounded length."
  [value]
  (bounded (text-of 0 value)))
