(ns magnetar.impl.inspect.json-dump
  "Reads the JDK's thread dump as JSON, of `jcmd Thread.dump_to_file -format=json`, into the threads of `thread-dump`.

  The JDK has no JSON reader. JSON without its colons is EDN, except for an escape in strings and for null, so the EDN reader reads it."
  {:no-doc true}
  (:require
   [clojure.edn :as edn]
   [clojure.string :as str]
   [magnetar.impl.inspect.thread-dump :as thread-dump]))

(set! *warn-on-reflection* true)

(defn dump?
  "Does the text begin as such a dump?"
  [text]
  (re-find #"^\s*\{\s*\"threadDump\"" text))

(defn- string-of-edn [string]
  (str/replace string #"\\(.)" (fn [[escape letter]] (if (= "/" letter) "/" escape))))

(defn- as-edn [json]
  (str/replace json #"\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"|:" (fn [part] (if (= ":" part) " " (string-of-edn part)))))

(defn- read-json
  "The value; nil if the text is no JSON, or only the beginning of it."
  [text]
  (try
    (edn/read-string (as-edn text))
    (catch RuntimeException _ nil)
    (catch StackOverflowError _ nil)))

(defn- wait [{blocked "blockedOn" waiting "waitingOn" {parked "object"} "parkBlocker"}]
  (let [object (or blocked waiting parked)]
    (when (string? object)
      {:how (cond blocked :monitor waiting :notify :else :park)
       :object object
       :class (first (str/split object #"@"))})))

(defn- thread [{:strs [tid name state virtual stack monitorsOwned] :as described}]
  (let [wait (wait described)]
    (cond-> {:id (str tid)
             :name (str name)
             :state state
             :frames (into [] (keep thread-dump/frame-of) stack)
             :owns (into #{} (comp (mapcat #(get % "locks")) (filter string?)) monitorsOwned)}
      wait (assoc :waits wait)
      (true? virtual) (assoc :virtual true))))

(defn threads
  "The threads of the dump; nil if it is cut off."
  [text]
  (when-some [containers (get-in (read-json text) ["threadDump" "threadContainers"])]
    (into [] (comp (mapcat #(get % "threads")) (map thread)) containers)))
