(ns magnetar.impl.explain
  "The sections of the page about errors, docs/reference/errors.md, which is a copy of the resource that is read here."
  {:no-doc true}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest])
  (:import
   (java.util IdentityHashMap)))

(set! *warn-on-reflection* true)

(defn page
  "The text of the page."
  []
  (slurp (io/resource "magnetar/errors.md") :encoding "UTF-8"))

(defn sections
  "From each id to its section, without the heading."
  []
  (into (sorted-map)
        (for [[_ id text] (re-seq #"(?ms)^## :(\S+)\n(.*?)(?=^## |\z)" (page))]
          [(keyword id) (str/trim text)])))

(def ^:private most-causes
  "A cause that makes a new cause each time that it is asked has no last one."
  10000)

(defn causes
  "The error and its causes, outermost first, each once, at most `most-causes`."
  [error]
  (let [seen (IdentityHashMap.)]
    (loop [^Throwable e error, found []]
      (if (or (nil? e) (.containsKey seen e) (= most-causes (count found)))
        found
        (do
          (.put seen e true)
          (recur (try (.getCause e) (catch Throwable _ nil)) (conj found e)))))))

(defn data-of
  "The `ex-data` of the error; nil if it has none, or throws when asked."
  [error]
  (try (ex-data error) (catch Throwable _ nil)))

(defn id-of
  "The id of the outermost error among the causes that has one, or nil."
  [error]
  (some #(when (keyword? %) %) (map (comp :magnetar/reason data-of) (causes error))))

(defn- of-id [id]
  (let [known (sections)]
    (if-some [text (known id)]
      (str id "\n\n" text)
      (str id " is no id of Magnetar."
           (when-some [meant (suggest/closest id (keys known))] (str " Is " meant " meant?"))))))

(defn text
  "What to print of an error, an id or nil."
  [x]
  (cond
    (nil? x) "There is no error to explain: *e is nil."
    (keyword? x) (of-id x)
    (id-of x) (of-id (id-of x))
    :else (str "This error has no id of Magnetar: " (.getName (class x)) ". `pst` shows where it was thrown.")))
