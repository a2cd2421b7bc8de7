(ns magnetar.impl.bits.refusals
  "Errors about layouts, and about values that do not go into them."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.errors :as errors]))

(set! *warn-on-reflection* true)

(defn shown
  "A value as it stands in a sentence."
  [value]
  (cond
    (bytes? value) (str "an array of " (alength ^bytes value) " bytes")
    (fn? value) "a function"
    :else (let [text (binding [*print-length* 8 *print-level* 3] (pr-str value))]
            (if (< (count text) 80) text (str (subs text 0 77) "...")))))

(defn- segment-shown [form]
  (if (vector? form)
    (str "[" (str/join " " (map shown form)) "]")
    (shown form)))

(defn- fail [reason {:keys [index form]} sentence data]
  (throw (errors/illegal-argument
           reason
           (str "Segment " (inc (long index)) " of the layout, `" (segment-shown form) "`, " sentence)
           (merge {:segment form :index index} data))))

(defn bad-layout
  "Throws: a segment, of :index and :form, cannot be meant. The sentence goes on after it and names the remedy."
  ([segment sentence] (bad-layout segment sentence nil))
  ([segment sentence data] (fail :magnetar/bad-layout segment sentence data)))

(defn bad-value
  "Throws: a value cannot be built into a segment."
  [segment sentence data]
  (fail :magnetar/bad-value segment sentence data))

(defn no-layout
  "Throws: something that is no layout was given as one."
  [value]
  (throw (errors/illegal-argument
           :magnetar/bad-layout
           (str "A layout is a vector of segments, such as [[:len 16] [:body :binary :len]]; this is " (shown value) ".")
           {:layout value})))

(defn no-source
  "Throws: something that has no bits was given to be parsed."
  [value]
  (throw (errors/illegal-argument
           :magnetar/bad-source
           (str "`bits/parse` reads a byte array, a ByteBuffer, an InputStream or a bitstring; this is " (shown value)
                ". Give it bytes: of a string, (.getBytes s \"UTF-8\").")
           {:source value :class (class value)})))
